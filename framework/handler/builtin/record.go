package builtin

import (
	"context"
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

const (
	// resumeEvery is the interval between searches for abandoned drains. They read the
	// informer's store and call no API.
	resumeEvery = 5 * time.Second
	// abandonedAfter is how long a drain must be idle before another handler takes over:
	// longer than sayEvery and lookSeldomEvery. If evictions delay the update for
	// longer, two handlers drain the node.
	abandonedAfter = 15 * time.Second
)

// resume continues recorded drains that have not ended, until ctx is done: at the start
// all of them, which a killed handler left, and then those that another replica
// abandons. Two handlers that drain the same node evict the same pods, which is harmless.
func (d *dispatcher) resume(ctx context.Context) {
	d.adoptAll(ctx, 0)
	for sleep(ctx, resumeEvery) {
		d.adoptAll(ctx, abandonedAfter)
	}
}

// adoptAll continues every drain that was idle for that long, and removes the record from
// restored nodes. Otherwise a node that is cordoned again later, for another reason, would
// be drained, or its next notice would count as a duplicate.
func (d *dispatcher) adoptAll(ctx context.Context, idle time.Duration) {
	for _, obj := range d.nodes.List() {
		node := obj.(*corev1.Node)
		r, stands := recordOf(node)
		if stands {
			d.adopt(ctx, node, r, idle)
		} else if r.State != "" {
			if err := d.drainer.write(ctx, node, nil); err != nil {
				d.log.Warn("take the record off a restored node", "node", node.Name, "error", err)
			}
		}
	}
}

// adopt continues the drain if it was idle for that long. It updates the record first, so
// that only one of several handlers continues. If this process is already draining the
// node, with evictions that take that long, nothing else happens.
func (d *dispatcher) adopt(ctx context.Context, node *corev1.Node, r drainRecord, idle time.Duration) {
	if r.State != stateDraining || r.idle() < idle {
		return
	}
	log := d.log.With("node", node.Name, "instance", r.Instance, "notice", r.Notice)
	if err := d.drainer.say(ctx, node, r); err != nil {
		log.Warn("drain not resumed yet", "error", err)
		return
	}
	if d.start(node.Name, r) {
		log.Info("drain resumed")
		d.drainer.events.Eventf(node, corev1.EventTypeNormal, "DrainResumed", "Evicting the pods that are left (notice %s)", r.Notice)
	}
}
