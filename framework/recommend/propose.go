package recommend

import (
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/corefile"
)

// Patch is what brings settings into force. A part is empty where there is nothing
// to change.
type Patch struct {
	// Corefile is the whole text.
	Corefile string `json:"corefile,omitempty"`
	// Deployment is a strategic merge patch in YAML.
	Deployment string `json:"deployment,omitempty"`
	// EKSAddOn is the JSON of configurationValues of the EKS add-on coredns. The
	// add-on can set neither the readiness probe nor the grace period: see
	// https://github.com/aws/containers-roadmap/issues/2595.
	EKSAddOn string `json:"eksAddOn,omitempty"`
}

// leastLameduck is the shortest that is proposed: what kubeadm and the EKS add-on
// set, and what was measured.
const leastLameduck = 5 * time.Second

// spare is how much longer than needed a grace period is proposed.
const spare = 5 * time.Second

// propose are settings that keep the rules, as near to the given ones as can be: a
// longer lameduck where it fits into the grace period, else a quicker readiness
// probe, and a longer grace period where even that does not fit.
func propose(s Settings) Settings {
	out := s
	out.Replicas = max(s.Replicas, 2)
	fits := func() bool { return out.Lameduck+ShutdownTime < out.GracePeriod }
	least := func() time.Duration { return max(out.Unready()+ProxySync, leastLameduck) }
	if out.Lameduck = max(s.Lameduck, least()); fits() {
		return out
	}
	out.ReadinessPeriod = time.Second
	if out.Lameduck = max(s.Lameduck, least()); fits() {
		return out
	}
	if out.Lameduck = least(); !fits() {
		out.GracePeriod = out.Lameduck + ShutdownTime + spare
	}
	return out
}

// Measured is the advice with settings that drills have shown to lose nothing. Of
// the grace period and the replicas it changes what the rules want.
func (a Advice) Measured(d DNS, lameduck, period time.Duration, threshold int, evidence string) (Advice, error) {
	want := a.Now
	want.Lameduck, want.ReadinessPeriod, want.FailureThreshold, want.Replicas = lameduck, period, threshold, max(want.Replicas, 2)
	if least := lameduck + ShutdownTime; want.GracePeriod <= least {
		want.GracePeriod = least + spare
	}
	if rule := want.Unready() + ProxySync; lameduck < rule {
		evidence += fmt.Sprintf("; the rule lameduck-outlasts-readiness wants at least %s all the same: drills with other connections may lose some", rule)
	}
	patch, err := NewPatch(d, want)
	a.Proposed, a.Patch, a.Evidence = want, patch, evidence
	return a, err
}

// NewPatch is the patch that brings the settings into force.
func NewPatch(d DNS, want Settings) (Patch, error) {
	c, err := corefile.Parse(d.Corefile)
	if err != nil {
		return Patch{}, fmt.Errorf("read the Corefile in ConfigMap %s: %w", d.ConfigMap, err)
	}
	var p Patch
	now := d.settings(c)
	addOn := map[string]any{}
	if c.Health && now.Lameduck != want.Lameduck {
		if p.Corefile, err = corefile.WithLameduck(d.Corefile, want.Lameduck); err != nil {
			return Patch{}, err
		}
		addOn["corefile"] = p.Corefile
	}
	if now.Replicas != want.Replicas {
		addOn["replicaCount"] = want.Replicas
	}
	if len(addOn) > 0 {
		text, err := json.Marshal(addOn)
		if err != nil {
			return Patch{}, fmt.Errorf("write the EKS add-on's configuration: %w", err)
		}
		p.EKSAddOn = string(text)
	}
	if p.Deployment, err = d.patchDeployment(now, want, c.Ready); err != nil {
		return Patch{}, fmt.Errorf("write the Deployment's patch: %w", err)
	}
	return p, nil
}

// patchDeployment changes what is not as wanted. The probe is turned to /ready only
// where the Corefile serves it: no pod would be Ready otherwise.
func (d DNS) patchDeployment(now, want Settings, ready bool) (string, error) {
	spec, pod, probe := map[string]any{}, map[string]any{}, map[string]any{}
	if now.Replicas != want.Replicas {
		spec["replicas"] = want.Replicas
	}
	if now.GracePeriod != want.GracePeriod {
		pod["terminationGracePeriodSeconds"] = int(want.GracePeriod.Seconds())
	}
	if has := d.readiness(); has != nil || ready {
		if has == nil || now.ReadinessPeriod != want.ReadinessPeriod {
			probe["periodSeconds"] = int(want.ReadinessPeriod.Seconds())
		}
		if has == nil || now.FailureThreshold != want.FailureThreshold {
			probe["failureThreshold"] = want.FailureThreshold
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
