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
	// Kind is that of the workload; empty if the cluster's DNS has none.
	Kind       Kind   `json:"kind,omitempty"`
	Deployment string `json:"deployment,omitempty"` // namespace/name of the workload
	ConfigMap  string `json:"configMap,omitempty"`  // namespace/name
	// Platform is what manages it, and what that keeps of changes; empty if nothing does.
	Platform string `json:"platform,omitempty"`
	// ScaledBy is the autoscaler that owns the replicas; empty if there is none.
	ScaledBy string `json:"scaledBy,omitempty"`
	// Others are more workloads behind the Service of the cluster's DNS, which are not judged.
	Others []string         `json:"others,omitempty"`
	Now    coredns.Settings `json:"now"`
	// NodeShutdown is what the kubelets do with pods when their node shuts down; empty if that does not matter.
	NodeShutdown string `json:"nodeShutdown,omitempty"`
	// Unused is what is in the files and not judged, and Assumed is what they leave out and was supposed.
	Unused  []string `json:"unused,omitempty"`
	Assumed []string `json:"assumed,omitempty"`
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

// New checks a cluster's DNS against the rules and proposes settings that follow them. The error is that
// of writing a patch.
func New(d DNS) (Advice, error) {
	a, err := advise(d)
	a.Findings = a.located(a.Findings)
	return a, err
}

func advise(d DNS) (Advice, error) {
	a := Advice{Kind: d.Workload.Kind, Platform: d.Platform.String(), Karpenter: d.Karpenter.String(), dns: d}
	if d.Manifests != nil {
		a.Unused, a.Assumed = d.Manifests.Unused(), d.Manifests.assumed
	}
	if d.Workload.Kind == "" && d.WorkloadUnread == "" {
		a.Findings = d.lintKarpenter()
		return a, nil
	}
	a.NodeShutdown = d.shutdownText()
	if d.CorefileUnread == "" {
		a.corefile = coredns.Read(d.source())
	}
	if d.Workload.Kind == "" {
		return d.adviceWithoutWorkload(a)
	}
	a.Deployment, a.ConfigMap, a.ScaledBy = d.Workload.Namespace+"/"+d.Workload.Name, d.ConfigMap, d.scaledBy()
	for _, w := range d.Others {
		a.Others = append(a.Others, w.String())
	}
	a.Now = d.settings(a.corefile)
	a.Findings, a.Proposed = d.lint(a.corefile, a.Now), d.propose(a.Now)
	var err error
	a.Patch, err = a.patch()
	return a, err
}

// Measured returns the advice to use the lameduck and the readiness probe of settings
// that lost nothing in drills. Grace period and replicas change only as far as the rules
// require.
func (a Advice) Measured(safe coredns.Settings, evidence string) (Advice, error) {
	if a.Kind == "" {
		return a, nil
	}
	want := a.Now
	want.Lameduck, want.LameduckUnknown, want.Readiness, want.Replicas = safe.Lameduck, false, safe.Readiness, a.Proposed.Replicas
	preStop, _ := a.dns.preStop()
	if least := preStop + want.Lameduck.D() + ShutdownTime; want.GracePeriod.D() <= least {
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

// Name is the workload, the ConfigMap of a Corefile alone, or the cluster's DNS if it has neither.
func (a Advice) Name() string {
	switch {
	case a.Kind != "":
		return a.Deployment
	case a.ConfigMap != "":
		return "the Corefile of ConfigMap " + a.ConfigMap
	case a.dns.WorkloadUnread != "":
		return "what the files have"
	}
	return "the cluster's DNS"
}

// rulesOfWorkloads are those that cannot be evaluated without the workload of CoreDNS.
var rulesOfWorkloads = []string{
	"lameduck-within-grace-period", "lameduck-outlasts-readiness", "readiness-probe", "readiness-asks-ready", "readiness-port", "liveness-port",
	"replicas", "rollout-keeps-pods", "replicas-for-cluster-size", "not-all-on-one-node", "not-all-in-one-zone", "not-all-on-spot", "budget", "one-budget", "budget-lets-one-go",
	"lameduck-within-node-shutdown", "lameduck-outlasts-readiness-at-node-shutdown", "node-shutdown-ends-dns-in-time",
}

// adviceWithoutWorkload is that for a Corefile, a handler or a kubelet alone. What needs the workload is unknown.
func (d DNS) adviceWithoutWorkload(a Advice) (Advice, error) {
	if d.CorefileUnread == "" {
		a.ConfigMap = d.ConfigMap
		a.Now = coredns.Settings{Lameduck: strict.Duration(a.corefile.Lameduck), LameduckUnknown: a.corefile.LameduckUnknown != ""}
		a.Proposed = a.Now
		if !a.Now.LameduckUnknown {
			a.Proposed.Lameduck = max(a.Now.Lameduck, strict.Duration(leastLameduck))
		}
		a.Findings = d.lintStart(a.corefile)
		a.Findings = append(a.Findings, d.lintEnd(a.corefile, a.Now)...)
		a.Findings = append(a.Findings, d.lintReadiness(a.corefile)...)
		if a.corefile.Refused == "" {
			a.Patch.Corefile = a.newCorefile()
		}
	}
	a.Findings = append(a.Findings, d.lintHandlers(a.Now)...)
	a.Findings = append(a.Findings, d.lintKarpenter()...)
	unevaluated := slices.Clone(rulesOfWorkloads)
	if d.CorefileUnread != "" {
		unevaluated = append([]string{"corefile"}, unevaluated...)
	} else if a.corefile.Refused == "" && a.corefile.LameduckUnknown == "" {
		for _, f := range d.lintCritical(a.Now) {
			a.Findings = append(a.Findings, f)
			unevaluated = slices.DeleteFunc(unevaluated, func(rule string) bool { return rule == f.Rule })
		}
	}
	var missing []Gap
	for _, rule := range unevaluated {
		missing = append(missing, Gap{rule, d.WorkloadUnread})
	}
	a.Findings = append(a.Findings, gaps(missing)...)
	return a, nil
}

// With adds findings.
func (a Advice) With(f ...Finding) Advice {
	a.Findings = append(slices.Clip(a.Findings), a.located(slices.Clone(f))...)
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

// grouped are the findings for people: rules that are unknown for one reason, or only lack objects, in one.
func (a Advice) grouped() (out []Finding) {
	for _, f := range a.Findings {
		i := slices.IndexFunc(out, func(other Finding) bool {
			return f.Unknown && other.Unknown && other.Fix == f.Fix && (other.Got == f.Got || f.Fix == addToFiles)
		})
		if i < 0 {
			out = append(out, f)
			continue
		}
		out[i].Rule, out[i].Why, out[i].Source, out[i].Drill = out[i].Rule+", "+f.Rule, "", "", ""
		if !strings.Contains(out[i].Got, f.Got) {
			out[i].Got += "; " + f.Got
		}
	}
	return out
}

//go:embed advice.txt
var adviceText string

// WriteText writes the advice for people: the findings, and the patch with instructions
// for each part.
func (a Advice) WriteText(w io.Writer) error {
	text, err := template.New("advice.txt").Funcs(template.FuncMap{
		"none": func() Patch { return Patch{} }, "line": func(s string) string { return strings.TrimSuffix(s, "\n") },
		"join":   func(all []string) string { return strings.Join(all, "; ") },
		"indent": func(s string) string { return strings.ReplaceAll(s, "\n", "\n          ") },
	}).Parse(adviceText)
	if err != nil {
		return fmt.Errorf("read the template of advice: %w", err)
	}
	namespace, name, _ := strings.Cut(a.Deployment, "/")
	return text.Execute(w, struct {
		Advice
		Namespace, Name, Resource, Custom string
		AddOn                             bool
		Grouped                           []Finding
	}{a, namespace, name, strings.ToLower(string(a.Kind)), platforms[a.dns.Platform].custom, a.dns.Platform == EKSAddOn, a.grouped()})
}
