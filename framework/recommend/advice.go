package recommend

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Advice is what is wrong with a cluster's DNS, and what puts it right.
type Advice struct {
	Deployment string    `json:"deployment"` // namespace/name
	ConfigMap  string    `json:"configMap"`  // namespace/name
	Now        Settings  `json:"now"`
	Findings   []Finding `json:"findings"`
	Proposed   Settings  `json:"proposed"`
	Patch      Patch     `json:"patch"`
	// Evidence is what was measured with the proposed settings; without it they
	// follow from the rules alone.
	Evidence string `json:"evidence,omitempty"`

	dns      DNS // that it is for
	corefile coredns.Corefile
}

// New holds a cluster's DNS to the rules and proposes settings that keep them. A
// Corefile that cannot be read is an error.
func New(d DNS) (Advice, error) {
	c, err := coredns.Parse(d.Corefile)
	if err != nil {
		return Advice{}, fmt.Errorf("read the Corefile in ConfigMap %s: %w", d.ConfigMap, err)
	}
	now := d.settings(c)
	a := Advice{
		Deployment: d.Deployment.Namespace + "/" + d.Deployment.Name, ConfigMap: d.ConfigMap,
		Now: now, Findings: d.lint(c, now), Proposed: propose(now), dns: d, corefile: c,
	}
	a.Patch, err = a.patch()
	return a, err
}

// Measured is the advice with settings that drills have shown to lose nothing. Of
// the grace period and the replicas it changes what the rules want.
func (a Advice) Measured(lameduck, period time.Duration, threshold int, evidence string) (Advice, error) {
	want := a.Now
	want.Lameduck, want.ReadinessPeriod, want.FailureThreshold, want.Replicas = lameduck, period, threshold, max(want.Replicas, 2)
	if least := lameduck + ShutdownTime; want.GracePeriod <= least {
		want.GracePeriod = least + spare
	}
	if rule := want.Unready() + ProxySync; lameduck < rule {
		evidence += fmt.Sprintf("; the rule lameduck-outlasts-readiness wants at least %s all the same: drills with other connections may lose some", rule)
	}
	a.Proposed, a.Evidence = want, evidence
	var err error
	a.Patch, err = a.patch()
	return a, err
}

// breaks tells whether a rule is known not to be kept.
func (a Advice) breaks(rule string) bool {
	return slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Rule == rule && !f.Unknown })
}

// Broken counts the rules that are not kept, and those that nobody can tell of.
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

// String tells settings as people write them.
func (s Settings) String() string {
	return fmt.Sprintf("lameduck %s, readiness %s x %d, grace period %s, replicas %d", s.Lameduck, s.ReadinessPeriod, s.FailureThreshold, s.GracePeriod, s.Replicas)
}

// MarshalJSON writes durations with their units.
func (s Settings) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"lameduck": s.Lameduck.String(), "readinessPeriod": s.ReadinessPeriod.String(), "failureThreshold": s.FailureThreshold,
		"gracePeriod": s.GracePeriod.String(), "replicas": s.Replicas,
	})
}

// WriteText writes the advice for people: the findings, and the patch with where
// its parts go.
func (a Advice) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", a.Deployment, a.Now)
	if len(a.Findings) == 0 {
		fmt.Fprintln(&b, "nothing to warn of")
	}
	for _, f := range a.Findings {
		state := "warning"
		if f.Unknown {
			state = "unknown"
		}
		fmt.Fprintf(&b, "\n%s %s: %s\n  why:    %s\n  fix:    %s\n  source: %s\n", state, f.Rule, f.Got, f.Why, f.Fix, f.Source)
	}
	if a.Evidence != "" {
		fmt.Fprintf(&b, "\nmeasured: %s\n", a.Evidence)
	}
	if a.Patch != (Patch{}) {
		fmt.Fprintf(&b, "\nproposed: %s\n", a.Proposed)
	}
	namespace, name, _ := strings.Cut(a.Deployment, "/")
	for _, part := range []struct{ head, text string }{
		{"Corefile, the whole of it, for ConfigMap " + a.ConfigMap, a.Patch.Corefile},
		{fmt.Sprintf("Deployment: kubectl -n %s patch deployment %s --patch-file FILE", namespace, name), a.Patch.Deployment},
		{"PodDisruptionBudget: kubectl apply -f FILE; not where the EKS add-on makes its own, since a pod of two is never evicted", a.Patch.Budget},
		{"EKS add-on coredns, configurationValues (the add-on sets neither readiness nor grace period)", a.Patch.EKSAddOn},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "\n# %s\n%s\n", part.head, strings.TrimSuffix(part.text, "\n"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
