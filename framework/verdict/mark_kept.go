package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// MarkKept has the parameters of checkMarkKept.
type MarkKept struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// Validate checks the parameters.
func (c MarkKept) Validate(in *scenarios.Scope) {
	in.NoticeFor(c.Node, c.Notice)
}

// DecidedBy is how long it needs the recording.
func (c MarkKept) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Stepped+scenarios.RepeatTime).On(c.Node, t)
}

var checkMarkKept = check{
	Kind: Kind{
		ID: "markKept", Title: "mark of %s kept",
		Requires: "Once the handler has marked the node, it never leaves it without a mark that keeps pods away, until the instance is gone.",
		Fix:      "leave cordon and taint on the node when the drain is over, or blocked: the instance ends anyway, and pods that are scheduled there meanwhile end with it",
		Look:     Look{Lane: LaneNode, Text: "the lane Node: when was the mark taken off, and what had happened just before? Then handler.log"},
	},
	judge: by(markKept),
}

func markKept(j judge, v Verdict, c MarkKept) Verdict {
	v = v.wants("never without a mark from the first one on", c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	mark, ok := j.MarkedAfter(node, put)
	if !ok {
		return v.unknown(node+" was not marked", put)
	}
	until := j.there(node)
	var changes, unclear []history.Event
	for _, e := range j.Events {
		if e.Node != node || e.At < mark.At || e.At >= until || !j.MarkChange(e) {
			continue
		}
		changes = append(changes, e)
		if marks, _ := j.MarksAfter(changes); len(marks) > 0 || j.ByOperator(e) {
			continue
		}
		switch j.Changed(e) {
		case story.Blamed:
			return v.fail(fmt.Sprintf("the last mark was taken off at +%s, %s after the first", history.Seconds(e.At), history.Seconds(e.At-mark.At)), mark, e)
		case story.Unclear:
			unclear = append(unclear, e)
		}
	}
	switch {
	case len(unclear) > 0:
		return v.unknown(unclearWho(unclear), capped(append([]history.Event{mark}, unclear...))...)
	case j.Unseen(until) != "":
		return v.unknown("kept: "+j.Unseen(until), mark)
	}
	return v.pass(fmt.Sprintf("kept for %s", history.Seconds(min(until, j.Observed)-mark.At)), mark)
}
