package recommend

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Patch changes the settings, and adds a missing budget, spreading and affinity, as far as the platform
// keeps such changes. A part is empty if there is nothing to change.
type Patch struct {
	// Corefile is the complete text.
	Corefile string `json:"corefile,omitempty"`
	// Custom is a patch of the platform's ConfigMap for additions to the Corefile, in YAML.
	Custom string `json:"custom,omitempty"`
	// Deployment is a strategic merge patch of the Deployment or DaemonSet, in YAML.
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
// longer grace period if even that does not fit. If the platform reverts the last two, the settings stay as
// they are.
func (d DNS) propose(s coredns.Settings) coredns.Settings {
	out := s
	if d.Workload.Kind != DaemonSet && d.scaledBy() == "" {
		out.Replicas = max(s.Replicas, d.replicasFor())
	}
	if d.readiness() == nil {
		out.Readiness = coredns.Readiness{Period: strict.Duration(time.Second), FailureThreshold: defaultThreshold}
	}
	preStop, _ := d.preStop()
	fits := func() bool { return preStop+out.Lameduck.D()+ShutdownTime < out.GracePeriod.D() }
	least := func() strict.Duration { return strict.Duration(max(out.Readiness.Unready()+ProxySync, leastLameduck)) }
	if out.Lameduck = max(s.Lameduck, least()); fits() {
		return out
	}
	if keeps := platforms[d.Platform]; !keeps.workload && d.Platform != EKSAddOn {
		if out.Lameduck = least(); keeps.custom != "" && fits() {
			return out
		}
		out.Lameduck, out.Readiness = s.Lameduck, s.Readiness
		return out
	}
	out.Readiness.Period = strict.Duration(time.Second)
	if out.Lameduck = max(s.Lameduck, least()); fits() {
		return out
	}
	if out.Lameduck = least(); !fits() {
		out.GracePeriod = strict.Duration(preStop) + out.Lameduck + strict.Duration(ShutdownTime+spare)
	}
	return out
}

// patch returns the patch to the proposed settings, with what is missing by the
// findings. There is none with which a pod could not start, or not become Ready: with a Corefile that
// CoreDNS refuses, nothing but a budget is proposed.
func (a Advice) patch() (p Patch, err error) {
	d, keeps := a.dns, platforms[a.dns.Platform]
	if a.violates("budget") && keeps.budget && len(d.budgetsOfPods()) == 0 { // a pod with two is never evicted
		if p.Budget, err = d.newBudget(); err != nil {
			return Patch{}, fmt.Errorf("write the PodDisruptionBudget: %w", err)
		}
	}
	if a.corefile.Refused != "" {
		return p, nil
	}
	corefile := a.newCorefile()
	switch {
	case keeps.corefile:
		p.Corefile = corefile
	case keeps.custom != "":
		if p.Custom, err = a.newCustom(keeps.custom); err != nil {
			return Patch{}, fmt.Errorf("write the patch of ConfigMap %s: %w", keeps.custom, err)
		}
	}
	var affinity *corev1.Affinity
	if a.violates("not-all-on-spot") && d.Workload.Kind != DaemonSet {
		affinity = d.awayFromSpot()
	}
	if d.Platform == EKSAddOn {
		if p.EKSAddOn, err = a.addOnPatch(corefile, affinity, p.Budget != ""); err != nil {
			return Patch{}, fmt.Errorf("write the EKS add-on's configuration: %w", err)
		}
	}
	if keeps.workload || d.Platform == EKSAddOn {
		if p.Deployment, err = a.patchWorkload(affinity, keeps.workload); err != nil {
			return Patch{}, fmt.Errorf("write the patch of %s: %w", d.Workload, err)
		}
	}
	return p, nil
}

// newCorefile is the Corefile with the proposed lameduck, and with ready; empty if nothing changes or
// the lines cannot be changed.
func (a Advice) newCorefile() string {
	if a.dns.CorefileUnread != "" {
		return ""
	}
	now, s := a.dns.Corefile, a.dns.source()
	unread := len(a.corefile.Unread) > 0 // what seems to be missing may be there
	if a.Now.Lameduck != a.Proposed.Lameduck && a.corefile.LameduckUnknown == "" {
		if text, err := s.WithLameduck(a.Proposed.Lameduck.D()); err == nil {
			s.Text = text
		}
	}
	if len(a.corefile.Ready) == 0 && !unread {
		if text, err := s.WithReady(); err == nil {
			s.Text = text
		}
	}
	if s.Text == now {
		return ""
	}
	return s.Text
}

// customKey is the key of the addition to the Corefile. Imported files are sorted, and the last lameduck
// of a server block counts.
const customKey = "zz-lameduck.override"

// newCustom is the patch of a ConfigMap whose keys *.override CoreDNS imports into its server block;
// empty if nothing changes, or if the lameduck would not be in force.
func (a Advice) newCustom(name string) (string, error) {
	if a.Now.Lameduck == a.Proposed.Lameduck && a.corefile.LameduckUnknown == "" {
		return "", nil
	}
	text := fmt.Sprintf("health {\n    lameduck %s\n}\n", a.Proposed.Lameduck.D())
	d, added := a.dns, false
	d.Mounts = slices.Clone(d.Mounts)
	for i, m := range d.Mounts {
		if m.ConfigMap == name {
			m.Files = maps.Clone(m.Files)
			m.Files[customKey] = MountedFile{ConfigMap: &corev1.ConfigMap{}, Key: customKey, Text: text}
			d.Mounts[i], added = m, true
		}
	}
	if c := coredns.Read(d.source()); !added || c.Refused != "" || c.LameduckUnknown != "" || c.Lameduck != a.Proposed.Lameduck.D() {
		return "", nil
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": d.Workload.Namespace},
		"data":     map[string]string{customKey: text},
	})
	return string(out), err
}

// addOnPatch is the JSON of configuration values; empty if nothing changes.
func (a Advice) addOnPatch(corefile string, affinity *corev1.Affinity, budget bool) (string, error) {
	values := map[string]any{}
	if corefile != "" {
		values["corefile"] = corefile
	}
	if a.Now.Replicas != a.Proposed.Replicas {
		values["autoScaling"] = autoScaling(a.Proposed.Replicas)
	}
	if budget {
		values["podDisruptionBudget"] = map[string]any{"enabled": true, "maxUnavailable": 1}
	}
	if affinity != nil {
		values["affinity"] = affinity // it replaces the add-on's own
	}
	if spreading := a.spreading(); len(spreading) > 0 {
		values["topologySpreadConstraints"] = spreading
	}
	if len(values) == 0 {
		return "", nil
	}
	text, err := json.Marshal(values)
	return string(text), err
}

// newBudget returns the manifest of a PodDisruptionBudget that allows one eviction. It
// has the name of the workload.
func (d DNS) newBudget() (string, error) {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
		"metadata": map[string]any{"name": d.Workload.Name, "namespace": d.Workload.Namespace},
		"spec":     map[string]any{"maxUnavailable": 1, "selector": d.Workload.Selector},
	})
	return string(text), err
}

// awayFromSpot returns the pods' affinity with a preference for nodes without the labels
// that mark spot nodes. It is not a requirement: a pod that fits on no other node would
// stay pending.
func (d DNS) awayFromSpot() *corev1.Affinity {
	affinity := ptr.Deref(d.Workload.Template.Spec.Affinity.DeepCopy(), corev1.Affinity{})
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

// patchWorkload returns the patch to the Deployment or DaemonSet: of its probe and grace period, and of
// the rest of it if that is wanted.
func (a Advice) patchWorkload(affinity *corev1.Affinity, all bool) (string, error) {
	d, now, want := a.dns, a.Now, a.Proposed
	spec, pod := map[string]any{}, map[string]any{}
	if all && affinity != nil {
		// A list is replaced as a whole, so existing entries are included.
		pod["affinity"] = map[string]any{"nodeAffinity": map[string]any{
			"preferredDuringSchedulingIgnoredDuringExecution": affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	if spreading := a.spreading(); all && len(spreading) > 0 && d.Workload.Kind != DaemonSet {
		pod["topologySpreadConstraints"] = spreading
	}
	if all && now.Replicas != want.Replicas {
		spec["replicas"] = want.Replicas
	}
	if now.GracePeriod != want.GracePeriod {
		pod["terminationGracePeriodSeconds"] = int(want.GracePeriod.D().Seconds())
	}
	if probe := a.probe(); len(probe) > 0 {
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

// probe is the patch of the readiness probe. It asks /ready only of the port at which the present
// Corefile has it: otherwise no pod would become Ready.
func (a Advice) probe() map[string]any {
	d, now, want := a.dns, a.Now, a.Proposed
	has, probe := d.readiness(), map[string]any{}
	port, ready := d.readyPort(a.corefile)
	if d.container() == nil || has == nil && !ready {
		return nil
	}
	if has == nil || now.Readiness.Period != want.Readiness.Period {
		probe["periodSeconds"] = int(want.Readiness.Period.D().Seconds())
	}
	if has == nil || now.Readiness.FailureThreshold != want.Readiness.FailureThreshold {
		probe["failureThreshold"] = want.Readiness.FailureThreshold
	}
	if ready && !d.asksReady(a.corefile) {
		get := map[string]any{"path": "/ready", "port": port, "scheme": "HTTP"}
		if has != nil && has.HTTPGet != nil && has.HTTPGet.Host != "" {
			get["host"] = nil // of the pod
		}
		probe["httpGet"] = get
		if has != nil && has.HTTPGet == nil {
			probe["tcpSocket"], probe["exec"], probe["grpc"] = nil, nil, nil
		}
	}
	return probe
}

// asksReady reports whether the readiness probe asks /ready where it is, or may be.
func (d DNS) asksReady(c coredns.Corefile) bool {
	probe := d.readiness()
	if probe == nil || probe.HTTPGet == nil || asks(probe.HTTPGet) != "/ready" {
		return false
	}
	return !slices.ContainsFunc(d.lintPort("readiness-port", *probe.HTTPGet, c.Ready, "ready"), func(f Finding) bool { return !f.Unknown })
}
