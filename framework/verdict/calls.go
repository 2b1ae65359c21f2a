package verdict

import (
	"fmt"
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
	// PerSecond is the highest rate of calls, at least 1.
	PerSecond int `yaml:"perSecond"`
	// Over is the length of the period.
	Over strict.Duration `yaml:"over"`
	// During is a fault: only the calls while it lasts count. Left out, those of the whole
	// drill count.
	During string `yaml:"during,omitempty"`
}

// Validate checks the parameters.
func (c Calls) Validate(in *scenarios.Scope) {
	if c.PerSecond < 1 {
		in.Problem("perSecond", "%d is less than 1", c.PerSecond)
	}
	in.Positive("over", c.Over)
	if c.During != "" {
		in.OneOf("during", c.During, in.Faults())
	}
}

// DecidedBy is how long it needs the recording.
func (c Calls) DecidedBy(t scenarios.Times) scenarios.Observation {
	if c.During != "" {
		return scenarios.AtEnd()
	}
	return scenarios.Absent(t.Stepped + c.Over.D())
}

var checkCalls = check{
	Kind: Kind{
		ID: "calls", Title: "calls of SQS %s",
		Requires: "The handler does not call SQS more often than a number of times a second, averaged over any period of a given length: while a fault lasts, or in the whole drill.",
		Fix:      "ask for messages with WaitTimeSeconds 20, and wait longer after each error in a row, with a limit of a few seconds",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler, and the sqs.call events of history.jsonl: which call is repeated, and after which answer?"},
	},
	judge: by(calls), needs: scenarios.Needs{Queue: "it counts calls to the queue"},
}

// calls counts the handler's calls by when they reached the proxy.
func calls(j judge, v Verdict, c Calls) Verdict {
	when, over := "", c.Over.D()
	if c.During != "" {
		when = fmt.Sprintf(" while fault %q lasts", c.During)
	}
	v = v.wants(fmt.Sprintf("at most %d calls a second in every %s%s", c.PerSecond, over, when), c.During)
	v.Check = strings.TrimSpace(v.Check)
	from, to := j.Begun, j.Observed
	if c.During != "" {
		begun, ok := j.First(func(e history.Event) bool { return e.Kind == history.FaultBegun && e.Step() == c.During })
		if !ok {
			return v.unknown(fmt.Sprintf("fault %q never began", c.During))
		}
		ended, why := j.endOf(c.During)
		if why != "" {
			return v.unknown(why, begun)
		}
		from, to = begun.At, ended.At
	}
	calls := j.handlersCalls(from, to)
	_, most := story.Busiest(calls, over, story.Arrived)
	allowed := int(float64(c.PerSecond) * over.Seconds())
	v.Numbers = map[string]float64{"sqs_calls": float64(len(calls)), "sqs_calls_most": float64(len(most)), "sqs_calls_allowed": float64(allowed)}
	switch {
	case len(most) > allowed:
		common, _ := story.MostCommon(most)
		return v.fail(fmt.Sprintf("%d calls within %s from +%s on, mostly %s; %d are allowed", len(most), over, history.Seconds(story.Arrived(most[0])), common.Action, allowed), capped(most)...)
	case j.Unrecorded(to) != "" || j.History.Damage != "":
		return v.unknown("the calls are not all on record")
	case to-from < over:
		return v.unknown(fmt.Sprintf("only %s were recorded, and the period is %s", history.Seconds(to-from), over))
	case len(calls) == 0:
		return v.unknown("no call on record: a handler that does not call at all proves nothing")
	}
	return v.pass(fmt.Sprintf("%d calls, at most %d within %s", len(calls), len(most), over), capped(most)...)
}

// handlersCalls are the handler's calls of SQS that reached the proxy in that time, in
// the order in which they did.
func (j judge) handlersCalls(from, to time.Duration) []history.Event {
	calls := filter(j.History.Events, func(e history.Event) bool {
		at := story.Arrived(e)
		return e.Kind == history.SQSCall && e.Owner != history.ProxyOwner && !strings.Contains(e.Action, ":") && at >= from && at <= to
	})
	slices.SortStableFunc(calls, func(a, b history.Event) int { return int(story.Arrived(a) - story.Arrived(b)) })
	return calls
}
