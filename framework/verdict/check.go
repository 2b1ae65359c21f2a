package verdict

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/spotdrill/spotdrill/scenarios"
)

// ID identifies a kind of check, as scenarios name it, or one of its verdicts. IDs are stable:
// reports, JUnit properties and mutants name verdicts by them.
type ID string

// IDOfDNSLost is the verdict by which a matrix of DNS settings is judged.
const IDOfDNSLost ID = "dnsLost"

// The verdicts on the run itself: whether there was a drill, and whether spotdrill's own part of it worked.
const (
	IDOfRun     ID = "run"
	IDOfHarness ID = "harness"
)

// Kind describes a kind of check.
type Kind struct {
	ID ID
	// Title is the name of its verdicts; each %s stands for a subject, such as a node.
	Title string
	// Verdicts are the IDs of its verdicts if its parameters select one of several requirements, or
	// if recorded verdicts have another ID.
	Verdicts []ID
	// Requires is what it requires, in one sentence.
	Requires string
	// Fix is what to do if it does not pass. Fixes are those of the verdicts that need another one.
	Fix   string
	Fixes map[ID]string
	// ofRecord reports whether it judges the recording, so that its fix is also that of an unknown.
	ofRecord bool
	// Look is where a report shows more of what it found.
	Look Look
	// Judges is where it is found.
	Judges Place
	// Parameters is the type of its parameters in scenarios; nil if it has none.
	Parameters reflect.Type
	// observes reports whether a check of every drill also applies to clusters that are not
	// spotdrill's own.
	observes bool
}

// Place shows where a check is found.
type Place string

// The places of checks.
const (
	InScenarios  Place = "scenarios"   // a scenario names it, with parameters
	InEveryDrill Place = "every drill" // it applies to every drill that it can evaluate
	Elsewhere    Place = "elsewhere"   // of a drill that was not judged, or of the EventBridge rules
)

// Look is a place in a report.
type Look struct {
	// Lane is the part of the drill's timeline; empty if none shows it.
	Lane Lane
	// Text describes what to look for.
	Text string
}

// Lane identifies a part of a drill's timeline.
type Lane string

// The lanes that verdicts point to.
const (
	LaneHandler   Lane = "handler"   // what went between the handler and the queue, and its events
	LaneNode      Lane = "node"      // marks, readiness and loss of nodes
	LanePods      Lane = "pods"      // the workload's pods
	LaneEndpoints Lane = "endpoints" // the addresses of kube-dns
	LaneDNS       Lane = "dns"       // the prober's queries
)

// check is a kind of check with its judge. Only one of judge and always is set.
type check struct {
	Kind
	// judge judges a check of a scenario.
	judge *parametrized
	// always judges a check that every drill must keep. It reports false if the check
	// does not apply to the drill.
	always func(j judge, v Verdict) (Verdict, bool)
}

// parametrized judges by parameters, which scenarios have in YAML.
type parametrized struct {
	zero   scenarios.Requirement
	decode scenarios.Decoder
	judge  func(j judge, v Verdict, parameters scenarios.Requirement) Verdict
}

// by makes a check with parameters of type C.
func by[C scenarios.Requirement](k Kind, judgeIt func(judge, Verdict, C) Verdict) check {
	var zero C
	return check{Kind: k, judge: &parametrized{zero, scenarios.DecoderOf[C](), func(j judge, v Verdict, parameters scenarios.Requirement) Verdict {
		c, ok := parameters.(C)
		if !ok {
			return v.unknown(fmt.Sprintf("its parameters are a %T", parameters))
		}
		return judgeIt(j, v, c)
	}}}
}

// ifApplicable makes a check of every drill that it applies to.
func ifApplicable(k Kind, judgeIt func(judge, Verdict) (Verdict, bool)) check {
	return check{Kind: k, always: judgeIt}
}

// everywhere makes a check that applies to every drill.
func everywhere(k Kind, judgeIt func(judge, Verdict) Verdict) check {
	return ifApplicable(k, func(j judge, v Verdict) (Verdict, bool) { return judgeIt(j, v), true })
}

// probed makes a judge that applies to drills with a prober. If an application is requested as
// well, both must keep it.
func probed(judgeIt func(judge, Verdict) Verdict) func(judge, Verdict) (Verdict, bool) {
	return func(j judge, v Verdict) (Verdict, bool) {
		if j.Scenario.Probe == nil {
			return v, false
		}
		found := judgeIt(j, v)
		if j.application == nil || found.Outcome != Pass {
			return found, true
		}
		application := judgeIt(*j.application, v)
		if application.Outcome != Pass {
			application.Got = "application: " + application.Got
			return application, true
		}
		found.Got += "; application: " + application.Got
		found.Evidence = append(found.Evidence, application.Evidence...)
		return found, true
	}
}

// verdict is a verdict of this check that has no outcome yet.
func (c check) verdict() Verdict { return Verdict{ID: c.ID, Check: c.Title} }

// as selects one of the verdicts of its check.
func (v Verdict) as(id ID, title string) Verdict {
	v.ID, v.Check = id, title
	return v
}

// requires describes what the verdict's check requires here, and of which subjects.
func (v Verdict) requires(want string, subjects ...any) Verdict {
	v.Check, v.Want = fmt.Sprintf(v.Check, subjects...), want
	v.Subject = strings.TrimSpace(fmt.Sprintln(subjects...))
	return v
}

// IDs are those of its verdicts.
func (k Kind) IDs() []ID {
	if len(k.Verdicts) > 0 {
		return k.Verdicts
	}
	return []ID{k.ID}
}

// Stand-ins for a drill without a verdict of its own.
var (
	applies = check{Kind: Kind{
		ID: "applies", Title: "applies",
		Requires: "The drill can be played with this handler on this machine; otherwise it is skipped.",
		Fix:      "if the handler has the feature, name it under features in its description; if something is missing on this machine, the reason names it",
		Look:     Look{Text: "the reason next to the scenario, and the handler's description"},
	}}
	notRun = check{Kind: Kind{
		ID: IDOfRun, Title: "run", ofRecord: true,
		Requires: "The drill was played and left a history.",
		Fix:      "the reason shows why there is no history: fix that, and play the drill again; spotdrill doctor checks this machine",
		Look:     Look{Text: "the console's output of the run"},
	}}
	unknownCheck = check{Kind: Kind{
		ID: "unknownCheck", Title: "unknown check", ofRecord: true,
		Requires: "Every check of the scenario is one that this version can evaluate.",
		Fix:      "judge the history with the version of spotdrill that played it, or with a newer one",
		Look:     Look{Text: "the scenario's file next to the history"},
	}}
)

// NodeNotice are the parameters of a check of a node that a notice names. The notice's deadline
// decides it.
type NodeNotice struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// Validate checks the parameters.
func (c NodeNotice) Validate(in *scenarios.Scope) { in.NoticeFor(c.Node, c.Notice) }

// DecidedBy is how long it needs the recording.
func (c NodeNotice) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Deadlines[c.Notice]).On(c.Node, t)
}

// NodePods are the parameters of a check of pods on such a node.
type NodePods struct {
	NodeNotice `yaml:",inline"`
	Pods       string `yaml:"pods"`
}

// Validate checks the parameters.
func (c NodePods) Validate(in *scenarios.Scope) { in.PodsFor(c.Node, c.Notice, c.Pods) }
