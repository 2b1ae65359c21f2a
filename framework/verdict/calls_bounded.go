package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// CallsBounded has the parameters of checkCallsBounded.
type CallsBounded struct {
	// Max is how many calls are allowed.
	Max int `yaml:"max"`
	// Per is the length of time that max is for, at least 2s.
	Per strict.Duration `yaml:"per"`
	// During limits the check to the time of a fault on the API server. Left out, the whole drill
	// counts but for its first 5s, in which the handler may still be starting.
	During string `yaml:"during,omitempty"`
}

// minPer is the shortest time that calls are counted for: the record counts calls that are
// the same by the second.
const minPer = 2 * time.Second

// Validate checks the parameters.
func (c CallsBounded) Validate(in *scenarios.Scope) {
	if c.Max <= 0 {
		in.Problem("max", "must be more than 0")
	}
	if c.Per.D() < minPer {
		in.Problem("per", "%s is less than %s", c.Per.D(), minPer)
	}
	if c.During != "" {
		in.APIFault("during", c.During, history.FaultTypes(history.OnAPI)...)
	}
}

// DecidedBy is how long it needs the recording.
func (c CallsBounded) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Reaction())
}

var checkCallsBounded = check{
	Kind: Kind{
		ID: "callsBounded", Title: "calls bounded %s",
		Requires: "No pod of the handler calls the API server more often than a number of times within a length of time.",
		Fix:      "watch instead of polling, pause between two tries and make the pause longer each time, and set a client-side limit: an API server that is overloaded gets worse by clients that repeat at once",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler; then the events api.call and api.folded of history.jsonl: which call is repeated?"},
	},
	judge: by(callsBounded), needs: scenarios.Needs{APICalls: true},
}

func callsBounded(j judge, v Verdict, c CallsBounded) Verdict {
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

// handlerStarts is how long a handler may still be starting when the steps begin: it may have been
// installed for this drill. Karpenter v1.14.1 called the API server 47 times in these five seconds,
// and 7 times in any ten seconds after that.
const handlerStarts = 5 * time.Second
