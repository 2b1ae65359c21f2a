package verdict

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Retried has the parameters of checkRetried.
type Retried struct {
	// Fault is a fault on the API server of a type that refuses calls.
	Fault  string          `yaml:"fault"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Retried) Validate(in *scenarios.Scope) {
	in.APIFault("fault", c.Fault, history.Conflict, history.Denied, history.Throttle, history.ServerError, history.Reset, history.BlackHole)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Retried) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Ended[c.Fault] + c.Within.D())
}

var checkRetried = check{
	Kind: Kind{
		ID: "retried", Title: "retried after %s",
		Requires: "What the API server refused or did not answer is done in the end: within a time of the last call that the fault hit, the handler has changed the same object, or read the same resource. A pod that leaves by itself, and a node whose instance is gone, need no other call.",
		Fix:      "repeat a call that fails with 409 (read the object again first), 429, 500, 503 or a broken connection, with a pause; if you give up, leave the message in the queue, so that it comes again",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler; then the events api.call of history.jsonl with the fault's name, and what follows them"},
	},
	judge: by(retried),
}

func retried(j judge, v Verdict, c Retried) Verdict {
	v = v.wants(fmt.Sprintf("each call that the fault hit, done within %s of the last try", c.Within.D()), c.Fault)
	hit, why := j.hitCalls(c.Fault)
	if why != "" {
		return v.unknown(why)
	}
	last := map[string]history.Event{}
	for _, e := range hit {
		last[purpose(e)] = e // in order of time
	}
	evidence := []history.Event{hit[0]}
	var unknown *Verdict
	for _, e := range byTime(last) {
		done, ok := j.First(func(d history.Event) bool {
			return (d.Kind == history.APICall || d.Kind == history.APIFolded) && d.At > e.At && story.Done(d) && purpose(d) == purpose(e)
		})
		until := e.At + c.Within.D()
		call := fmt.Sprintf("%s of %s, last tried at +%s, ", e.Action, strings.TrimSpace(e.Resource+" "+cmp.Or(e.Node, e.Pod, e.Object)), history.Seconds(e.At))
		switch {
		case ok && done.At <= until:
			evidence = append(evidence, e, done)
		case j.needless(e, until):
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
	return v.pass(fmt.Sprintf("%d calls hit, all of them done in the end", len(hit)), capped(evidence)...)
}
