package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// RetryAfterKept has the parameters of checkRetryAfterKept.
type RetryAfterKept struct {
	// Fault is a fault on the API server of type throttle with retryAfter.
	Fault string `yaml:"fault"`
}

// Validate checks the parameters.
func (c RetryAfterKept) Validate(in *scenarios.Scope) {
	if f, ok := in.APIFault("fault", c.Fault, history.Throttle); ok && f.RetryAfter == 0 {
		in.Problem("fault", "%q has no retryAfter", c.Fault)
	}
}

// DecidedBy is how long it needs the recording.
func (c RetryAfterKept) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Ended[c.Fault])
}

var checkRetryAfterKept = by(Kind{
	ID: "retryAfterKept", Title: "Retry-After of %s kept",
	Requires: "The handler does not repeat a call that was answered with 429 before the time in the answer's Retry-After is over.",
	Fix:      "wait as long as Retry-After requires; client-go does, unless the call is wrapped in a retry of its own that does not",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler; then the events api.call of history.jsonl with status 429, and the same call after each"},
}, retryAfterKept)

func retryAfterKept(j judge, v Verdict, c RetryAfterKept) Verdict {
	v = v.requires("no throttled call repeated before its Retry-After is over", c.Fault)
	hit, why := story.HitCalls(j.Story, c.Fault)
	if why != "" {
		return v.unknown(why)
	}
	var evidence []history.Event
	for _, e := range hit {
		wait := e.Numbers.Duration(history.RetryAfter)
		if e.Kind != history.APICall || e.Status != 429 || wait == 0 {
			continue
		}
		evidence = append(evidence, e)
		again, ok := j.First(func(a history.Event) bool {
			return a.Kind == history.APICall && a.Seq > e.Seq && a.IP == e.IP && a.Action == e.Action && story.Purpose(a) == story.Purpose(e) && a.Object == e.Object && a.Node == e.Node
		})
		switch {
		case ok && story.Arrived(again) < e.At+wait:
			return v.fail(fmt.Sprintf("%s %s repeated after %s, and Retry-After is %s", e.Action, e.Resource, history.Seconds(story.Arrived(again)-e.At), wait), e, again)
		case !ok && j.Unrecorded(e.At+wait) != "":
			return v.unknown("not repeated: "+j.Unrecorded(e.At+wait), e)
		}
	}
	if len(evidence) == 0 {
		return v.unknown(fmt.Sprintf("no call was answered with 429 and a Retry-After by fault %q", c.Fault))
	}
	return v.pass(fmt.Sprintf("%d throttled calls, none repeated too early", len(evidence)), capped(evidence)...)
}
