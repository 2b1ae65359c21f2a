package recommend

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Advice is what is wrong with a cluster's DNS and Karpenter, and how to fix it.
type Advice struct {
	Deployment string           `json:"deployment"` // namespace/name
	ConfigMap  string           `json:"configMap"`  // namespace/name
	Now        coredns.Settings `json:"now"`
	// Karpenter is which one was checked, or why none was; empty if the cluster has none.
	Karpenter string           `json:"karpenter,omitempty"`
	Findings  []Finding        `json:"findings"`
	Proposed  coredns.Settings `json:"proposed"`
	Patch     Patch            `json:"patch"`
	// Evidence is what was measured with the proposed settings. If it is empty, they
	// follow from the rules alone.
	Evidence string `json:"evidence,omitempty"`

	dns      DNS
	corefile coredns.Corefile
}

// New checks a cluster's DNS against the rules and proposes settings that follow them.
// A Corefile that cannot be parsed is an error.
func New(d DNS) (Advice, error) {
	c, err := coredns.Parse(d.Corefile)
	if err != nil {
		return Advice{}, fmt.Errorf("read the Corefile in ConfigMap %s: %w", d.ConfigMap, err)
	}
	now := d.settings(c)
	a := Advice{
		Deployment: d.Deployment.Namespace + "/" + d.Deployment.Name, ConfigMap: d.ConfigMap,
		Now: now, Karpenter: d.Karpenter.String(), Findings: d.lint(c, now), Proposed: d.propose(now), dns: d, corefile: c,
	}
	a.Patch, err = a.patch()
	return a, err
}

// Measured returns the advice to use the lameduck and the readiness probe of settings
// that lost nothing in drills. Grace period and replicas change only as far as the rules
// require.
func (a Advice) Measured(safe coredns.Settings, evidence string) (Advice, error) {
	want := a.Now
	want.Lameduck, want.Readiness, want.Replicas = safe.Lameduck, safe.Readiness, max(want.Replicas, a.dns.replicasFor())
	if least := want.Lameduck.D() + ShutdownTime; want.GracePeriod.D() <= least {
		want.GracePeriod = strict.Duration(least + spare)
	}
	if rule := want.Readiness.Unready() + ProxySync; want.Lameduck.D() < rule {
		evidence += fmt.Sprintf("; the rule lameduck-outlasts-readiness still requires at least %s: other connections than those of the drills may lose queries", rule)
	}
	a.Proposed, a.Evidence = want, evidence
	var err error
	a.Patch, err = a.patch()
	return a, err
}

// With adds findings.
func (a Advice) With(f ...Finding) Advice {
	a.Findings = append(slices.Clip(a.Findings), f...)
	return a
}

// violates reports whether a rule is known to be broken.
func (a Advice) violates(rule string) bool {
	return slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Rule == rule && !f.Unknown })
}

// Broken counts the rules that are broken, and those that cannot be evaluated.
func (a Advice) Broken() (broken, unknown int) {
	for _, f := range a.Findings {
		if f.Unknown {
			unknown++
		} else {
			broken++
		}
	}
	return broken, unknown
}

// WriteText writes the advice for people: the findings, and the patch with instructions
// for each part.
func (a Advice) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", a.Deployment, a.Now)
	if a.Karpenter != "" {
		fmt.Fprintf(&b, "Karpenter: %s\n", a.Karpenter)
	}
	if len(a.Findings) == 0 {
		fmt.Fprintln(&b, "nothing to warn of")
	}
	for _, f := range a.Findings {
		state := "warning"
		if f.Unknown {
			state = "unknown"
		}
		fmt.Fprintf(&b, "\n%s %s: %s\n  why:    %s\n  fix:    %s\n  source: %s\n", state, f.Rule, f.Got, f.Why, f.Fix, f.Source)
		if f.Drill != "" {
			fmt.Fprintf(&b, "  drill:  spotdrill run %s\n", f.Drill)
		}
	}
	if a.Evidence != "" {
		fmt.Fprintf(&b, "\nmeasured: %s\n", a.Evidence)
	}
	if a.Patch != (Patch{}) {
		fmt.Fprintf(&b, "\nproposed: %s\n", a.Proposed)
	}
	namespace, name, _ := strings.Cut(a.Deployment, "/")
	for _, part := range []struct{ head, text string }{
		{"complete Corefile for ConfigMap " + a.ConfigMap, a.Patch.Corefile},
		{fmt.Sprintf("Deployment: kubectl -n %s patch deployment %s --patch-file FILE", namespace, name), a.Patch.Deployment},
		{"PodDisruptionBudget: kubectl apply -f FILE; not if the EKS add-on creates one, since a pod with two budgets is never evicted", a.Patch.Budget},
		{"EKS add-on coredns, configurationValues (the add-on can set neither readiness probe nor grace period)", a.Patch.EKSAddOn},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "\n# %s\n%s\n", part.head, strings.TrimSuffix(part.text, "\n"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
