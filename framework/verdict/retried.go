package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Retried has the parameters of checkRetried.
type Retried struct {
	// Fault is a fault on the API server of a type that refuses calls, or that ends watches.
	Fault  string          `yaml:"fault"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Retried) Validate(in *scenarios.Scope) {
	in.APIFault("fault", c.Fault, history.Conflict, history.Denied, history.Throttle, history.ServerError, history.Reset, history.BlackHole, history.WatchEnded)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Retried) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Ended[c.Fault] + c.Within.D())
}

var checkRetried = by(Kind{
	ID: "retried", Title: "retried, or watched again, after %s", Verdicts: []ID{"retried", "watchedAgain"},
	Requires: "What the API server refused or did not answer is done in the end: within a time of the last call that the fault hit, the handler has changed the same object, or read the same resource. A pod that leaves by itself, and a node whose instance is gone, need no other call. A watch that the API server ended is begun again within a time of the fault's end.",
	Fix:      "repeat a call that fails with 409 (read the object again first), 429, 500, 503 or a broken connection, with a pause; if you give up, leave the message in the queue, so that it comes again",
	Fixes: map[ID]string{
		"watchedAgain": "begin another watch when one ends, as client-go's informers and reflectors do: an API server ends each after some minutes",
	},
	Look: Look{Lane: LaneHandler, Text: "the lane Handler; then the events api.call and fault.hit of history.jsonl with the fault's name, and what follows them"},
}, func(j judge, v Verdict, c Retried) Verdict {
	if slices.ContainsFunc(j.Scenario.Faults(), func(f scenarios.Fault) bool { return f.Name == c.Fault && f.Type == history.WatchEnded }) {
		return watchedAgain(j, v.as("watchedAgain", "watched again after %s"), c)
	}
	return retried(j, v.as("retried", "retried after %s"), c)
})

func retried(j judge, v Verdict, c Retried) Verdict {
	v = v.requires(fmt.Sprintf("each call that the fault hit, done within %s of the last try", c.Within.D()), c.Fault)
	hit, why := story.HitCalls(j.Story, c.Fault)
	if why != "" {
		return v.unknown(why)
	}
	last := map[string]history.Event{}
	for _, e := range hit {
		last[story.Purpose(e)] = e // in order of time
	}
	evidence := []history.Event{hit[0]}
	var unknown *Verdict
	for _, e := range slices.SortedFunc(maps.Values(last), func(a, b history.Event) int { return cmp.Compare(a.Seq, b.Seq) }) {
		done, ok := j.First(func(d history.Event) bool {
			return (d.Kind == history.APICall || d.Kind == history.APIFolded) && d.At > e.At && story.Done(d) && story.Purpose(d) == story.Purpose(e)
		})
		until := e.At + c.Within.D()
		call := fmt.Sprintf("%s of %s, last tried at +%s, ", e.Action, strings.TrimSpace(e.Resource+" "+cmp.Or(e.Node, e.Pod, e.Object)), history.Seconds(e.At))
		switch {
		case ok && done.At <= until:
			evidence = append(evidence, e, done)
		case story.Needless(j.Story, e, until):
		case !ok && j.Unrecorded(until) != "":
			u := v.unknown(call+"not done: "+j.Unrecorded(until), e)
			unknown = &u
		case ok:
			return v.fail(call+"done only after "+history.Seconds(done.At-e.At), e, done)
		default:
			return v.fail(call+"never done", e)
		}
	}
	if unknown != nil {
		return *unknown
	}
	v.Numbers = map[string]float64{"calls": float64(len(hit)), "objects": float64(len(last))}
	return v.pass(fmt.Sprintf("%s hit, all of them done in the end", history.Count(len(hit), "call")), capped(evidence)...)
}

func watchedAgain(j judge, v Verdict, c Retried) Verdict {
	v = v.requires(fmt.Sprintf("each watch that was ended, begun again within %s of the fault's end", c.Within.D()), c.Fault)
	if why := j.APIUnrecorded(); why != "" {
		return v.unknown(why)
	}
	ended, ok := j.First(func(e history.Event) bool { return e.Kind == history.FaultEnded && e.Step() == c.Fault })
	if !ok {
		return v.unknown(fmt.Sprintf("fault %q did not end", c.Fault))
	}
	hits := j.All(func(e history.Event) bool { return e.Kind == history.FaultHit && e.Step() == c.Fault })
	if len(hits) == 0 {
		return v.unknown(fmt.Sprintf("fault %q ended no watch", c.Fault), ended)
	}
	until := ended.At + c.Within.D()
	evidence := []history.Event{ended}
	for _, hit := range hits {
		begun := j.APICalls(func(e history.Event) bool {
			return e.Action == "watch" && e.Resource == hit.Resource && e.IP == hit.IP && e.At > hit.At && e.At <= until && story.Done(e)
		})
		if len(begun) > 0 {
			evidence = append(evidence, hit, begun[0])
			continue
		}
		if why := j.Unrecorded(until); why != "" {
			return v.unknown(fmt.Sprintf("watch of %s not begun again: %s", hit.Resource, why), hit, ended)
		}
		return v.fail(fmt.Sprintf("watch of %s ended at +%s, and not begun again by +%s", hit.Resource, history.Seconds(hit.At), history.Seconds(until)), hit, ended)
	}
	return v.pass(fmt.Sprintf("%s ended and begun again", history.Count(len(hits), "watch")), capped(evidence)...)
}
