package recommend

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

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

//go:embed advice.txt
var adviceText string

// WriteText writes the advice for people: the findings, and the patch with instructions
// for each part.
func (a Advice) WriteText(w io.Writer) error {
	text, err := template.New("advice.txt").Funcs(template.FuncMap{
		"none": func() Patch { return Patch{} }, "line": func(s string) string { return strings.TrimSuffix(s, "\n") },
	}).Parse(adviceText)
	if err != nil {
		return fmt.Errorf("read the template of advice: %w", err)
	}
	namespace, name, _ := strings.Cut(a.Deployment, "/")
	return text.Execute(w, struct {
		Advice
		Namespace, Name string
	}{a, namespace, name})
}
