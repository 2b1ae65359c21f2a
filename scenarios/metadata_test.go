package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// needing is a requirement with these needs.
type needing Needs

func (needing) Validate(*Scope)             {}
func (needing) DecidedBy(Times) Observation { return AtEnd() }
func (n needing) Needs() Needs              { return Needs(n) }

func TestWhatOnlyAHandlerWithAQueueCanBeDrilledIn(t *testing.T) {
	nodes := map[string]Pick{"victim": {Capacity: "spot"}, "reserved": {Capacity: "on-demand"}, "launched": {Capacity: "spot", Launched: &Launched{}}}
	spot := Notice{Name: "reclaim", Type: history.SpotInterruption, Nodes: []string{"victim"}}
	notice := func(edit func(*Notice)) []Step {
		n := spot
		edit(&n)
		return []Step{{Notice: &n}}
	}
	for name, c := range map[string]struct {
		steps  []Step
		checks []Check
		want   string
	}{
		"a spot notice":                {steps: notice(func(*Notice) {})},
		"a recommendation":             {steps: notice(func(n *Notice) { n.Type = history.RebalanceRecommendation })},
		"a scheduled change":           {steps: notice(func(n *Notice) { n.Type = history.ScheduledChange })},
		"a scheduled change, later":    {steps: notice(func(n *Notice) { n.Type, n.Health = history.ScheduledChange, &Health{StartsIn: 5} })},
		"a closed scheduled change":    {steps: notice(func(n *Notice) { n.Type, n.Health = history.ScheduledChange, &Health{Status: history.HealthClosed} }), want: "no AWS Health events"},
		"a state change":               {steps: notice(func(n *Notice) { n.Type = history.StateChange }), want: "does not announce state-change"},
		"an old notice":                {steps: notice(func(n *Notice) { n.Age = 1 }), want: "age"},
		"an instance without a node":   {steps: notice(func(n *Notice) { n.Nodes, n.Instance = nil, "i-1" }), want: "has no node"},
		"of an on-demand node":         {steps: notice(func(n *Notice) { n.Nodes = []string{"reserved"} }), want: "reserved is no fixed spot node"},
		"of a launched node":           {steps: notice(func(n *Notice) { n.Nodes = []string{"victim", "launched"} }), want: "launched is no fixed spot node"},
		"a message":                    {steps: []Step{{Message: &Message{Name: "garbage"}}}, want: "messages"},
		"a fault of the queue":         {steps: []Step{{Fault: &Fault{fault.Fault{On: history.OnQueue, Name: "outage"}}}}, want: "the queue fails"},
		"a fault of the API server":    {steps: []Step{{Fault: &Fault{fault.Fault{On: history.OnAPI, Name: "outage"}}}}},
		"waiting for a deletion":       {steps: []Step{{Await: &Await{Deleted: "reclaim"}}}},
		"waiting for a receipt":        {steps: []Step{{Await: &Await{Received: "reclaim"}}}, want: "received"},
		"calls to the queue, counted":  {checks: []Check{{Requirement: needing{Queue: "it counts calls to the queue"}}}, want: "counts calls"},
		"messages after SIGTERM":       {checks: []Check{{Requirement: needing{Queue: "it judges which messages are received after SIGTERM"}}}, want: "after SIGTERM"},
		"messages that are to be gone": {checks: []Check{{Requirement: needing{Messages: true}}}},
	} {
		got := Scenario{Nodes: nodes, Steps: c.steps, Checks: c.checks}.NeedsQueue()
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAHandlerThatReadsMetadataHasNoMessages(t *testing.T) {
	s := Scenario{
		Steps:  []Step{{Notice: &Notice{Name: "reclaim"}}, {Await: &Await{Deleted: "reclaim"}}, {Await: &Await{Drained: "victim"}}},
		Checks: []Check{{Kind: "marked"}, {Kind: "deleted", Requirement: needing{Messages: true}}, {Kind: "queueEmpty", Requirement: needing{Messages: true}}},
	}
	got := s.WithoutQueue()
	if len(got.Steps) != 2 || got.Steps[1].Await.Drained == "" || len(got.Checks) != 1 || got.Checks[0].Kind != "marked" {
		t.Errorf("%+v", got)
	}
	if len(s.Steps) != 3 || len(s.Checks) != 3 {
		t.Error("the scenario itself was changed")
	}
}

func TestWhatADaemonSetCannotBeDrilledIn(t *testing.T) {
	for verb, want := range map[Verb]bool{
		Kill: false, Restart: false, Delete: false, Scale: true, Retire: true, Move: true, CutOff: true, Stop: true,
	} {
		got := Scenario{Steps: []Step{{Do: &Do{Verb: verb, Target: OnHandler}}}}.NeedsReplicas()
		if (got != "") != want {
			t.Errorf("%s: %q", verb, got)
		}
	}
}

func TestWhenMetadataSaysThatItHappens(t *testing.T) {
	s := Scenario{Deadline: Deadline{Fast: strict.Duration(25 * time.Second), Full: strict.Duration(2 * time.Minute)}}
	for _, c := range []struct {
		notice Notice
		set    Set
		want   time.Duration
	}{
		{Notice{}, Fast, 25 * time.Second},
		{Notice{}, Full, 2 * time.Minute},
		{Notice{Health: &Health{}}, Full, 2 * time.Minute},
		{Notice{Health: &Health{StartsIn: strict.Duration(time.Hour)}}, Fast, time.Hour},
	} {
		if got := s.MetadataTime(c.notice, c.set); got != c.want {
			t.Errorf("%+v in %s: %s, want %s", c.notice, c.set, got, c.want)
		}
	}
}

func TestMetadataOfANodeWithoutTheHandler(t *testing.T) {
	fault := func(node string) Step {
		f := Fault{}
		f.On, f.Node = history.OnMetadata, node
		return Step{Fault: &f}
	}
	move := func(node string) Step { return Step{Do: &Do{Verb: Move, Target: OnHandler, Node: node}} }
	for want, cases := range map[string][][]Step{
		"":       {{}, {fault("")}, {move("victim"), fault("victim")}, {move("victim"), fault(""), fault("victim")}},
		"victim": {{fault("victim")}, {fault(""), fault("victim")}, {fault("victim"), move("victim")}, {move("other"), fault("victim")}},
	} {
		for i, steps := range cases {
			if got := (Scenario{Steps: steps}).MetadataElsewhere(); got != want {
				t.Errorf("%q, case %d: %q", want, i, got)
			}
		}
	}
}
