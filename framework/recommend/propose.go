package recommend

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Patch changes the settings, and adds a missing budget and affinity. A part is empty if
// there is nothing to change.
type Patch struct {
	// Corefile is the complete text.
	Corefile string `json:"corefile,omitempty"`
	// Deployment is a strategic merge patch in YAML.
	Deployment string `json:"deployment,omitempty"`
	// Budget is the manifest of a PodDisruptionBudget, in YAML.
	Budget string `json:"budget,omitempty"`
	// EKSAddOn is the JSON for configurationValues of the EKS add-on coredns. The add-on
	// can set neither the readiness probe nor the grace period: see
	// https://github.com/aws/containers-roadmap/issues/2595.
	EKSAddOn string `json:"eksAddOn,omitempty"`
}

// leastLameduck is the shortest lameduck that is proposed: the one that kubeadm and the
// EKS add-on set, and that was measured.
const leastLameduck = 5 * time.Second

// spare is added to the shortest grace period that the rules allow.
const spare = 5 * time.Second

// propose returns settings that follow the rules and change as little as possible: a
// longer lameduck if it fits into the grace period, else a faster readiness probe, and a
// longer grace period if even that does not fit.
func (d DNS) propose(s coredns.Settings) coredns.Settings {
	out := s
	out.Replicas = max(s.Replicas, d.replicasFor())
	fits := func() bool { return out.Lameduck.D()+ShutdownTime < out.GracePeriod.D() }
	least := func() strict.Duration { return strict.Duration(max(out.Readiness.Unready()+ProxySync, leastLameduck)) }
	if out.Lameduck = max(s.Lameduck, least()); fits() {
		return out
	}
	out.Readiness.Period = strict.Duration(time.Second)
	if out.Lameduck = max(s.Lameduck, least()); fits() {
		return out
	}
	if out.Lameduck = least(); !fits() {
		out.GracePeriod = out.Lameduck + strict.Duration(ShutdownTime+spare)
	}
	return out
}

// patch returns the patch to the proposed settings, with what is missing by the
// findings.
func (a Advice) patch() (p Patch, err error) {
	d, now, want := a.dns, a.Now, a.Proposed
	addOn := map[string]any{}
	if a.corefile.Health && now.Lameduck != want.Lameduck {
		if p.Corefile, err = coredns.WithLameduck(d.Corefile, want.Lameduck.D()); err != nil {
			return Patch{}, err
		}
		addOn["corefile"] = p.Corefile
	}
	if now.Replicas != want.Replicas {
		addOn["autoScaling"] = autoScaling(want.Replicas)
	}
	if a.violates("budget") {
		if p.Budget, err = d.newBudget(); err != nil {
			return Patch{}, fmt.Errorf("write the PodDisruptionBudget: %w", err)
		}
		addOn["podDisruptionBudget"] = map[string]any{"enabled": true, "maxUnavailable": 1}
	}
	var affinity *corev1.Affinity
	if a.violates("not-all-on-spot") {
		affinity = d.awayFromSpot()
		addOn["affinity"] = affinity // it replaces the add-on's own
	}
	if len(addOn) > 0 {
		text, err := json.Marshal(addOn)
		if err != nil {
			return Patch{}, fmt.Errorf("write the EKS add-on's configuration: %w", err)
		}
		p.EKSAddOn = string(text)
	}
	if p.Deployment, err = d.patchDeployment(now, want, affinity, a.corefile.Ready); err != nil {
		return Patch{}, fmt.Errorf("write the Deployment's patch: %w", err)
	}
	return p, nil
}

// newBudget returns the manifest of a PodDisruptionBudget that allows one eviction. It
// has the name of the Deployment.
func (d DNS) newBudget() (string, error) {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
		"metadata": map[string]any{"name": d.Deployment.Name, "namespace": d.Deployment.Namespace},
		"spec":     map[string]any{"maxUnavailable": 1, "selector": d.Deployment.Spec.Selector},
	})
	return string(text), err
}

// awayFromSpot returns the pods' affinity with a preference for nodes without the labels
// that mark spot nodes. It is not a requirement: a pod that fits on no other node would
// stay pending.
func (d DNS) awayFromSpot() *corev1.Affinity {
	affinity := ptr.Deref(d.Deployment.Spec.Template.Spec.Affinity.DeepCopy(), corev1.Affinity{})
	node := ptr.Deref(affinity.NodeAffinity, corev1.NodeAffinity{})
	var not []corev1.NodeSelectorRequirement
	for _, l := range capacityLabels {
		if slices.ContainsFunc(d.Pods, func(p Pod) bool { return p.Label == l.key }) {
			not = append(not, corev1.NodeSelectorRequirement{Key: l.key, Operator: corev1.NodeSelectorOpNotIn, Values: []string{l.spot}})
		}
	}
	node.PreferredDuringSchedulingIgnoredDuringExecution = append(node.PreferredDuringSchedulingIgnoredDuringExecution,
		corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: not}})
	affinity.NodeAffinity = &node
	return &affinity
}

// patchDeployment returns the patch to the Deployment. The probe is changed to /ready only
// if the Corefile has the ready plugin: otherwise no pod would become Ready.
func (d DNS) patchDeployment(now, want coredns.Settings, affinity *corev1.Affinity, ready bool) (string, error) {
	spec, pod, probe := map[string]any{}, map[string]any{}, map[string]any{}
	if affinity != nil {
		// A list is replaced as a whole, so existing entries are included.
		pod["affinity"] = map[string]any{"nodeAffinity": map[string]any{
			"preferredDuringSchedulingIgnoredDuringExecution": affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	if now.Replicas != want.Replicas {
		spec["replicas"] = want.Replicas
	}
	if now.GracePeriod != want.GracePeriod {
		pod["terminationGracePeriodSeconds"] = int(want.GracePeriod.D().Seconds())
	}
	if has := d.readiness(); has != nil || ready {
		if has == nil || now.Readiness.Period != want.Readiness.Period {
			probe["periodSeconds"] = int(want.Readiness.Period.D().Seconds())
		}
		if has == nil || now.Readiness.FailureThreshold != want.Readiness.FailureThreshold {
			probe["failureThreshold"] = want.Readiness.FailureThreshold
		}
		if ready && (has == nil || has.HTTPGet == nil || has.HTTPGet.Path != "/ready") {
			probe["httpGet"] = map[string]any{"path": "/ready", "port": 8181, "scheme": "HTTP"}
			if has != nil && has.HTTPGet == nil {
				probe["tcpSocket"], probe["exec"], probe["grpc"] = nil, nil, nil
			}
		}
	}
	if len(probe) > 0 && d.container() != nil {
		pod["containers"] = []any{map[string]any{"name": d.container().Name, "readinessProbe": probe}}
	}
	if len(pod) > 0 {
		spec["template"] = map[string]any{"spec": pod}
	}
	if len(spec) == 0 {
		return "", nil
	}
	text, err := yaml.Marshal(map[string]any{"spec": spec})
	return string(text), err
}
