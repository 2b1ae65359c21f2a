package storm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

const handlerPod = "handler/handler-1-2"

// recorded is a storm of 40 nodes with one pod each, in which all notices come at second 1.
type recorded struct {
	// received, marked and drained are the seconds of these events for a node, by its number from 0.
	received, marked, drained func(node int) float64
	// calls are the seconds of the handler's calls to the API server, and took is how long each takes.
	calls func(call int) float64
	took  float64
	more  []history.Event
}

func at(seconds float64) history.Detail {
	return history.At(time.Duration(seconds * float64(time.Second)))
}

func (r recorded) story(t *testing.T) *story.Story {
	t.Helper()
	scenario, err := Options{Loader: verdict.Scenarios(), Pods: 1, Over: time.Second}.scenario(40)
	if err != nil {
		t.Fatal(err)
	}
	const end = 121.0
	h := history.History{Complete: true}
	h.Meta.Handler = history.Handler{Name: "x", Unschedulable: true, Deployment: "handler/handler"}
	add := func(e history.Event) {
		if e.At < time.Duration(end*float64(time.Second)) {
			h.Events = append(h.Events, e)
		}
	}
	add(history.NewPodPresent(handlerPod, "uid-h", "", "Running", history.Owner("ReplicaSet/handler-1"), at(0.2)))
	for node := range 40 {
		name, pod := fmt.Sprintf("n%d", node), fmt.Sprintf("w/p%d", node)
		add(history.NewNodePresent(name, history.Spot, at(0.1)))
		add(history.NewPodPresent(pod, "uid-"+pod, "", "Running", history.Node(name), history.Owner("ReplicaSet/app-1"), at(0.3)))
		add(history.NewNoticePut("reclaim", history.SpotInterruption, name, at(1), history.Until(time.Duration(end*float64(time.Second))), history.Notice("n-"+name)))
		add(history.NewSQSReceived("", "m-"+name, "n-"+name, at(r.received(node))))
		add(history.NewNodeCordoned(name, at(r.marked(node))))
		add(history.NewPodDeleted(pod, "uid-"+pod, at(r.drained(node))))
		add(history.NewSQSDeleted("", "m-"+name, "n-"+name, at(r.drained(node)+0.1)))
	}
	for call := 0; r.calls(call) < end; call++ {
		add(history.NewAPICall("patch", "/nodes", []string{"a"}, history.Status(200), at(r.calls(call)), history.With(history.Numbers{history.Took: r.took})))
	}
	for _, e := range r.more {
		add(e)
	}
	return story.Read(scenario, h)
}

func each(seconds float64) func(int) float64 {
	return func(n int) float64 { return 1.5 + float64(n)*seconds }
}

// soon is that all of them happen at once.
func soon(n int) float64 { return 1.5 + float64(n)*0.01 }

// waits are waits of the handler, one a second and each so long, of which its CPU limit held it for some.
func waits(each, throttled float64) (out []history.Event) {
	for second := range 110 {
		out = append(out, history.NewProcessorWaited(handlerPod, at(float64(second)+2), history.With(history.Numbers{history.Waited: each, history.Throttled: throttled})))
	}
	return out
}

// The first cause that the record shows is the limit.
func TestLimit(t *testing.T) {
	t.Parallel()
	stolen := []history.Event{history.NewProcessorStolen(at(80), history.With(history.Numbers{history.Stolen: 64, history.Within: 80, history.Cores: 2}))}
	little := []history.Event{history.NewProcessorStolen(at(80), history.With(history.Numbers{history.Stolen: 0.6, history.Within: 1, history.Cores: 2}))}
	burst := func(call int) float64 { return 2 + float64(call)*0.01 + float64(call/100)*45 }
	for name, c := range map[string]struct {
		recorded
		want     Bottleneck
		evidence string
	}{
		"a client with a rate": {recorded{received: soon, marked: each(4), drained: each(5), calls: each(0.2), took: 0.01}, ClientRate, "5.0 to 5.0 calls a second in each 10 s"},
		"a client with a rate, on a machine that gave processors to others":              {recorded{received: soon, marked: each(4), drained: each(5), calls: each(0.2), took: 0.01, more: stolen}, Machine, "gave 40% of its processors"},
		"a client with a rate, on a machine that gave processors to others for a second": {recorded{received: soon, marked: each(4), drained: each(5), calls: each(0.2), took: 0.01, more: little}, ClientRate, ""},
		"a slow API server":            {recorded{received: soon, marked: each(4), drained: each(5), calls: each(0.2), took: 0.12}, Machine, "the API server took 0.120s"},
		"a handler without processor":  {recorded{received: soon, marked: each(4), drained: each(5), calls: burst, took: 0.01, more: waits(0.4, 0)}, Machine, "waited for a processor for 44.000s"},
		"a CPU limit":                  {recorded{received: soon, marked: each(4), drained: each(5), calls: burst, took: 0.01, more: waits(0.4, 0.4)}, CPULimit, "44.000s of 120.000s"},
		"one message every 4 s":        {recorded{received: each(4), marked: each(4), drained: each(4.1), calls: burst, took: 0.01}, Polls, "0.2 to 0.3 messages a second"},
		"two nodes at a time":          {recorded{received: soon, marked: func(n int) float64 { return 2 + float64(n/2)*10 }, drained: func(n int) float64 { return 11.9 + float64(n/2)*10 }, calls: burst, took: 0.01}, Workers, "2 nodes at a time"},
		"all at once, and pods stay":   {recorded{received: soon, marked: soon, drained: each(100), calls: burst, took: 0.01}, NotKnown, "show no limit"},
		"no more calls after a minute": {recorded{received: soon, marked: soon, drained: each(100), calls: func(n int) float64 { return 1.5 + float64(n)*0.2 + float64(n/300)*1000 }, took: 0.01}, NotKnown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if l := limitOf(c.story(t)); l.Bottleneck != c.want || !strings.Contains(l.Evidence, c.evidence) {
				t.Errorf("%s, want %s: %s", l, c.want, c.evidence)
			}
		})
	}
}

// A stage counts what came before the deadline, and when the last of it came.
func TestStages(t *testing.T) {
	t.Parallel()
	st := recorded{received: soon, marked: each(1), drained: each(4), calls: each(50), took: 0.01}.story(t)
	all := courses(st)
	for name, c := range map[string]struct{ got, want Stage }{
		"marked":  {stage(all, func(c course) *history.Event { return c.marked }), Stage{40, 39.5}},
		"drained": {stage(all, func(c course) *history.Event { return c.drained }), Stage{30, 116.5}},
		"deleted": {stage(all, func(c course) *history.Event { return c.deleted }), Stage{30, 116.6}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
}

// A storm that no handler can be blamed for is no result.
func TestWhatIsKnown(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Result{
		"not known: the storm of 20 nodes could not be judged: drained fleet: no": {Survived: 10, Plays: []Play{{Nodes: 10, Outcome: verdict.Pass}, {Nodes: 20, Outcome: verdict.Unknown, Why: "drained fleet: no"}}},
		"survives 10 nodes, the largest that was played":                          {Survived: 10, Plays: []Play{{Nodes: 10, Outcome: verdict.Pass}}},
		"survives 10 nodes, not 11; the limit is nodes at a time: 1":              {Survived: 10, TooLarge: 11, Limit: &Limit{Workers, "1"}, Plays: []Play{{Outcome: verdict.Fail}}},
		"survives 10 nodes; not 11, but of that the limit was this machine: busy": {Survived: 10, TooLarge: 11, Limit: &Limit{Machine, "busy"}, Plays: []Play{{Outcome: verdict.Fail}}},
		"not known: the storm of 15 nodes could not be judged: no":                {Survived: 10, TooLarge: 20, Limit: &Limit{Workers, "1"}, Plays: []Play{{Nodes: 20, Outcome: verdict.Fail}, {Nodes: 15, Outcome: verdict.Unknown, Why: "no"}}},
		"nothing was played": {},
	} {
		if got := r.Verdict(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if known := strings.Contains(want, "the largest that was played") || strings.Contains(want, "the limit is"); r.Known() != known {
			t.Errorf("%q: known %t", want, r.Known())
		}
	}
}
