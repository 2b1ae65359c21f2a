package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkCallsBounded = check{
	Kind: Kind{
		ID: "callsBounded", Title: "calls bounded %s",
		Requires: "No pod of the handler calls the API server more often than a number of times within a length of time.",
		Fix:      "watch instead of polling, pause between two tries and make the pause longer each time, and set a client-side limit: an API server that is overloaded gets worse by clients that repeat at once",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler; then the events api.call and api.folded of history.jsonl: which call is repeated?"},
	},
	judge: by(callsBounded),
}

// handlerStarts is how long a handler may still be starting when the steps begin: it may have been
// installed for this drill. Karpenter v1.14.1 called the API server 47 times in these five seconds,
// and 7 times in any ten seconds after that.
const handlerStarts = 5 * time.Second

func callsBounded(j judge, v Verdict, c scenarios.CallsBounded) Verdict {
	v = v.wants(fmt.Sprintf("at most %d calls to the API server in any %s by one pod", c.Max, c.Per.D()), cmp.Or(c.During, "throughout"))
	if why := j.APIUnrecorded(); why != "" {
		return v.unknown(why)
	}
	from, to := j.Begun+handlerStarts, j.Observed
	if c.During != "" {
		begun, ok := j.First(func(e history.Event) bool { return e.Kind == history.FaultBegun && e.Step() == c.During })
		ended, over := j.First(func(e history.Event) bool { return e.Kind == history.FaultEnded && e.Step() == c.During })
		if !ok || !over {
			return v.unknown(fmt.Sprintf("fault %q did not begin and end", c.During))
		}
		from, to = begun.At, ended.At
	}
	byClient := map[string][]history.Event{}
	for _, e := range j.APICalls(func(e history.Event) bool { return e.At >= from && e.At <= to }) {
		byClient[e.IP] = append(byClient[e.IP], e)
	}
	most, within := 0.0, []history.Event(nil)
	for _, client := range slices.Sorted(maps.Keys(byClient)) {
		if n, calls := story.Busiest(byClient[client], c.Per.D(), story.Recorded); n > most {
			most, within = n, calls
		}
	}
	v.Numbers = map[string]float64{"calls": most, "per_seconds": c.Per.D().Seconds()}
	got := fmt.Sprintf("at most %.0f calls in %s", most, c.Per.D())
	if most > float64(c.Max) {
		common, n := story.MostCommon(within)
		return v.fail(fmt.Sprintf("%.0f calls in %s up to +%s, %.0f of them %s %s", most, c.Per.D(), history.Seconds(within[len(within)-1].At), n, common.Action, common.Resource), capped(within)...)
	}
	return v.pass(got)
}

var checkRetryAfterKept = check{
	Kind: Kind{
		ID: "retryAfterKept", Title: "Retry-After of %s kept",
		Requires: "The handler does not repeat a call that was answered with 429 before the time in the answer's Retry-After is over.",
		Fix:      "wait as long as Retry-After requires; client-go does, unless the call is wrapped in a retry of its own that does not",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler; then the events api.call of history.jsonl with status 429, and the same call after each"},
	},
	judge: by(retryAfterKept),
}

func retryAfterKept(j judge, v Verdict, c scenarios.RetryAfterKept) Verdict {
	v = v.wants("no throttled call repeated before its Retry-After is over", c.Fault)
	hit, why := j.hitCalls(c.Fault)
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
			return a.Kind == history.APICall && a.Seq > e.Seq && a.IP == e.IP && a.Action == e.Action && purpose(a) == purpose(e) && a.Object == e.Object && a.Node == e.Node
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

var checkWatchedAgain = check{
	Kind: Kind{
		ID: "watchedAgain", Title: "watched again after %s",
		Requires: "What the handler watched when the API server ended its watches, it watches again within a time.",
		Fix:      "begin another watch when one ends: an API server ends each after some minutes; client-go's informers and reflectors do",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler; then the events fault.hit and api.call of history.jsonl with the verb watch"},
	},
	judge: by(watchedAgain),
}

func watchedAgain(j judge, v Verdict, c scenarios.WatchedAgain) Verdict {
	v = v.wants(fmt.Sprintf("each watch that was ended, begun again within %s of the fault's end", c.Within.D()), c.Fault)
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
	return v.pass(fmt.Sprintf("%d watches ended and begun again", len(hits)), capped(evidence)...)
}
