package recommend

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

//go:embed rules.yaml
var rulesFile []byte

// Rule is the text of a rule that a cluster's DNS or Karpenter can break.
type Rule struct {
	Why    string `yaml:"why"`    // what follows if it is broken
	Fix    string `yaml:"fix"`    // how to fix it
	Source string `yaml:"source"` // where it comes from
	// Drill is the scenario that shows why it matters; empty if there is none.
	Drill string `yaml:"drill"`
	// At are the values in files that it is about, as what and the path in it; the first one that the files have counts.
	At []string `yaml:"at"`
}

// Rules are all rules, by their names. Nobody changes them.
func Rules() map[string]Rule { return rules() }

var rules = sync.OnceValue(func() map[string]Rule { return decoded[Rule]("rules.yaml", rulesFile) })

// decoded is a file of this package, which every test reads.
func decoded[T any](name string, text []byte) (all map[string]T) {
	if err := strict.Decode(name, text, &all); err != nil {
		panic(err)
	}
	return all
}

// Finding is a rule that a cluster's DNS or Karpenter breaks, or that cannot be evaluated for
// it.
type Finding struct {
	Rule string `json:"rule"`
	// Unknown is set if the rule could not be evaluated.
	Unknown bool   `json:"unknown,omitempty"`
	Got     string `json:"got"`    // what was read
	Why     string `json:"why"`    // what follows from it
	Source  string `json:"source"` // where the rule comes from
	Fix     string `json:"fix"`
	// Drill is the scenario that shows why the rule matters; empty if there is none.
	Drill string `json:"drill,omitempty"`
	// At is where the files have the value; nil without files, or if they do not have it.
	At *Place `json:"at,omitempty"`

	handler string  // that it is about
	kubelet *source // the configuration that it is about
}

// breaks is the finding that a rule is broken; got is what was read.
func breaks(rule, got string, args ...any) Finding {
	r := Rules()[rule]
	return Finding{Rule: rule, Got: fmt.Sprintf(got, args...), Why: r.Why, Source: r.Source, Fix: r.Fix, Drill: r.Drill}
}

// unknown is the finding that a rule cannot be evaluated; why is the reason.
func unknown(rule, why string, args ...any) Finding {
	f := breaks(rule, why, args...)
	f.Unknown = true
	return f
}

// addToFiles is how what is missing gets read.
const addToFiles = "let it be read, or add it to the files"

// gaps are the findings of rules that cannot be evaluated.
func gaps(of []Gap) (found []Finding) {
	for _, g := range of {
		f := unknown(g.Rule, "%s", g.Why)
		f.Fix = addToFiles
		found = append(found, f)
	}
	return found
}

// fixedBy is the finding with values for its fix.
func (f Finding) fixedBy(values ...any) Finding {
	f.Fix = fmt.Sprintf(f.Fix, values...)
	return f
}

// unlessIn makes a finding that something is missing unknown if what could not be read may
// contain it.
func (f Finding) unlessIn(unread []string) Finding {
	if len(unread) > 0 {
		f.Unknown = true
		f.Got += ", but it may be in what could not be read: " + strings.Join(unread, ", ")
	}
	return f
}

// lint checks a cluster's DNS against the rules and returns the findings, the worst
// first.
func (d DNS) lint(c coredns.Corefile, s coredns.Settings) []Finding {
	var found []Finding
	if d.Workload.isCoreDNS() {
		found = append(found, d.lintStart(c)...)
		if d.CorefileUnread == "" {
			found = append(found, d.lintEnd(c, s)...)
			found = append(found, d.lintReadiness(c)...)
			found = append(found, d.lintShutdown(c, s)...)
		}
	}
	found = append(found, d.lintReplicas(s)...)
	found = append(found, d.lintRollout(s)...)
	found = append(found, d.lintSize(s)...)
	found = append(found, d.lintBudgets(s)...)
	found = append(found, d.lintAddOn()...)
	for i, f := range found {
		found[i].Fix += d.keptBy(f.Rule)
	}
	found = append(found, gaps(d.Gaps)...)
	found = append(found, d.lintTolerated()...)
	found = append(found, d.lintHandlers(s)...)
	return append(found, d.lintKarpenter()...)
}
