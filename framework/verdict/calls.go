package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Calls has the parameters of checkCalls.
type Calls struct {
	// To is what is called: the queue, by all pods of the handler together, or the API server, by
	// each of them.
	To string `yaml:"to"`
	// Max is how many calls are allowed, at least 1.
	Max int `yaml:"max"`
	// Per is the length of time that max is for; at least 2s for the API server.
	Per strict.Duration `yaml:"per"`
	// During is a fault on what is called: only the calls while it lasts count. Left out, the
	// whole drill counts, for the API server but for its first 5s, in which the handler may still be
	// starting.
	During string `yaml:"during,omitempty"`
}

func (c Calls) toAPI() bool { return c.To == string(history.OnAPI) }

// minPerAPI is the shortest time that calls to the API server are counted for: the record counts
// calls that are the same by the second.
const minPerAPI = 2 * time.Second

// Validate checks the parameters.
func (c Calls) Validate(in *scenarios.Scope) {
	in.OneOf("to", c.To, history.Words([]history.FaultTarget{history.OnQueue, history.OnAPI}))
	if c.Max < 1 {
		in.Problem("max", "%d is less than 1", c.Max)
	}
	in.Positive("per", c.Per)
	if c.toAPI() && c.Per.D() < minPerAPI {
		in.Problem("per", "%s is less than %s", c.Per.D(), minPerAPI)
	}
	switch {
	case c.During == "":
	case c.toAPI():
		in.APIFault("during", c.During, history.FaultTypes(history.OnAPI)...)
	default:
		in.OneOf("during", c.During, in.Faults)
	}
}

// DecidedBy is how long it needs the recording.
func (c Calls) DecidedBy(t scenarios.Times) scenarios.Observation {
	switch {
	case c.toAPI():
		return scenarios.Absent(t.Reaction())
	case c.During != "":
		return scenarios.AtEnd()
	}
	return scenarios.Absent(t.Stepped + c.Per.D())
}

// Needs is what it needs of a drill.
func (c Calls) Needs() scenarios.Needs {
	if c.toAPI() {
		return scenarios.Needs{APICalls: true}
	}
	return scenarios.Needs{Queue: "it counts calls to the queue"}
}

var checkCalls = by(Kind{
	ID: "calls", Title: "calls of SQS %s, or calls bounded %s", Verdicts: []ID{"calls", "callsBounded"},
	Requires: "The handler does not call SQS, or no pod of it calls the API server, more often than a number of times within any time of a given length: while a fault lasts, or in the whole drill.",
	Fix:      "receive from the queue with WaitTimeSeconds 20; wait longer after each error in a row, up to a few seconds: a server that is overloaded gets worse by clients that repeat at once",
	Fixes: map[ID]string{
		"callsBounded": "watch the API server instead of polling it, and set a client-side limit; wait longer after each error in a row, up to a few seconds",
	},
	Look: Look{Lane: LaneHandler, Text: "the lane Handler; then the events sqs.call, or api.call and api.folded, of history.jsonl: which call is repeated, and after which answer?"},
}, func(j judge, v Verdict, c Calls) Verdict {
	if c.toAPI() {
		return callsToAPI(j, v.as("callsBounded", "calls bounded %s"), c)
	}
	return callsToQueue(j, v.as("calls", "calls of SQS %s"), c)
})

// callsToQueue counts the handler's calls of SQS by when they reached the proxy.
func callsToQueue(j judge, v Verdict, c Calls) Verdict {
	when, per := "", c.Per.D()
	if c.During != "" {
		when = fmt.Sprintf(" while fault %q lasts", c.During)
	}
	v = v.requires(fmt.Sprintf("at most %s in any %s%s", history.Count(c.Max, "call"), per, when), c.During)
	v.Check = strings.TrimSpace(v.Check)
	from, to := j.Begun, j.Observed
	if c.During != "" {
		begun, ok := j.First(func(e history.Event) bool { return e.Kind == history.FaultBegun && e.Step() == c.During })
		if !ok {
			return v.unknown(fmt.Sprintf("fault %q never began", c.During))
		}
		ended, why := j.EndOf(c.During)
		if why != "" {
			return v.unknown(why, begun)
		}
		from, to = begun.At, ended.At
	}
	calls := story.QueueCalls(j.Story, from, to)
	_, most := story.Busiest(calls, per, story.Arrived)
	v.Numbers = map[string]float64{"sqs_calls": float64(len(calls)), "sqs_calls_most": float64(len(most)), "sqs_calls_allowed": float64(c.Max)}
	switch {
	case len(most) > c.Max:
		common, _ := story.MostCommon(most)
		return v.fail(fmt.Sprintf("%s within %s from +%s on, mostly %s; %d are allowed", history.Count(len(most), "call"), per, history.Seconds(story.Arrived(most[0])), common.Action, c.Max), capped(most)...)
	case j.Unrecorded(to) != "" || j.History.Damage != "":
		return v.unknown("the calls are not all on record")
	case to-from < per:
		return v.unknown(fmt.Sprintf("only %s were recorded, and the period is %s", history.Seconds(to-from), per))
	case len(calls) == 0:
		return v.unknown("no call on record: a handler that does not call at all proves nothing")
	}
	return v.pass(fmt.Sprintf("%s, at most %d within %s", history.Count(len(calls), "call"), len(most), per), capped(most)...)
}

// callsToAPI counts the calls of each of the handler's pods to the API server.
func callsToAPI(j judge, v Verdict, c Calls) Verdict {
	v = v.requires(fmt.Sprintf("at most %s to the API server in any %s by one pod", history.Count(c.Max, "call"), c.Per.D()), cmp.Or(c.During, "throughout"))
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
	if most > float64(c.Max) {
		common, n := story.MostCommon(within)
		return v.fail(fmt.Sprintf("%.0f calls in %s up to +%s, %.0f of them %s %s", most, c.Per.D(), history.Seconds(within[len(within)-1].At), n, common.Action, common.Resource), capped(within)...)
	}
	return v.pass(fmt.Sprintf("at most %.0f calls in %s", most, c.Per.D()))
}

// handlerStarts is how long a handler may still be starting when the steps begin: it may have been
// installed for this drill. Karpenter v1.14.1 called the API server 47 times in these five seconds,
// and 7 times in any ten seconds after that.
const handlerStarts = 5 * time.Second
