package builtin

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// drainingAnnotation holds the node's record as JSON.
const drainingAnnotation = "spotdrill.dev/draining"

// disruptedKey is the key of the taint that a node gets with its cordon. It is that of
// Karpenter, so that a pod that tolerates one handler tolerates the other.
const disruptedKey = "karpenter.sh/disrupted"

// drainState is the state of a drain.
type drainState string

// The states of a drain.
const (
	stateDraining drainState = "draining"
	stateDrained  drainState = "drained"   // nothing evictable is left
	stateTimedOut drainState = "timed-out" // given up after Config.DrainTimeout
)

// drainRecord is the record of a drain, on the node itself.
type drainRecord struct {
	State    drainState `json:"state"`
	Cause    cause      `json:"cause"`
	Notice   string     `json:"notice,omitempty"` // id of the EventBridge envelope
	Instance string     `json:"instance"`
	// Lifecycle is what must be completed when nothing is left on the node.
	Lifecycle *lifecycleAction `json:"lifecycle,omitempty"`
	Since     time.Time        `json:"since"`
	Seen      time.Time        `json:"seen,omitzero"` // last update by a handler that is working on it
	Ended     time.Time        `json:"ended,omitzero"`
}

// drain identifies a drain among those of a node.
func (r drainRecord) drain() string { return r.Notice + "@" + r.Since.Format(time.RFC3339Nano) }

// idle is the time since a handler last updated the record. If the clocks of two handlers
// differ by more than the limit, both drain the node, which is harmless.
func (r drainRecord) idle() time.Duration {
	if r.Seen.After(r.Since) {
		return time.Since(r.Seen)
	}
	return time.Since(r.Since)
}

func disruptedTaint() corev1.Taint {
	return corev1.Taint{Key: disruptedKey, Effect: corev1.TaintEffectNoSchedule}
}

// recordOf reads the record of a node's current or last drain. There is none if the
// annotation is missing or unreadable, or if the node is schedulable and untainted:
// somebody has restored it.
func recordOf(node *corev1.Node) (drainRecord, bool) {
	var r drainRecord
	value, ok := node.Annotations[drainingAnnotation]
	if !ok || json.Unmarshal([]byte(value), &r) != nil {
		return drainRecord{}, false
	}
	return r, node.Spec.Unschedulable || tainted(node)
}

func tainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == disruptedKey })
}

// markPatch is the JSON merge patch that cordons and taints the node and writes
// the record. It names the resourceVersion that it is based on, because a merge patch
// replaces the whole list of taints and only one of two handlers may win.
func markPatch(node *corev1.Node, r drainRecord) ([]byte, error) {
	taints := node.Spec.Taints
	if !tainted(node) {
		taints = append(slices.Clone(taints), disruptedTaint())
	}
	return recordPatch(node, &r, map[string]any{"unschedulable": true, "taints": taints})
}

// recordPatch writes the record, or removes it if r is nil, and applies the change of the
// spec, if any. Cordon and taint stay until the instance is gone or somebody restores the
// node.
func recordPatch(node *corev1.Node, r *drainRecord, spec map[string]any) ([]byte, error) {
	var annotation any
	if r != nil {
		data, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("write the record: %w", err)
		}
		annotation = string(data)
	}
	patch := map[string]any{
		"metadata": map[string]any{
			"resourceVersion": node.ResourceVersion,
			"annotations":     map[string]any{drainingAnnotation: annotation},
		},
	}
	if spec != nil {
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}
