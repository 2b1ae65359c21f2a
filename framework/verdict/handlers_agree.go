package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// HandlersAgree has the parameters of checkHandlersAgree.
type HandlersAgree struct {
	NodeNotice `yaml:",inline"`
}

// Validate checks the parameters.
func (c HandlersAgree) Validate(in *scenarios.Scope) {
	in.NoticeForTwo(c.Node, c.Notice)
}

// DecidedBy is how long it needs the recording.
func (c HandlersAgree) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Stepped+scenarios.RepeatTime).On(c.Node, t)
}

var checkHandlersAgree = by(Kind{
	ID: "handlersAgree", Title: "handlers agree about %s",
	Requires: "One of two handlers drains the node. The other neither changes the node nor asks a pod of it to leave, and deletes no message for which nobody acts. Neither takes a mark off while the instance is there.",
	Fix:      "run one interruption handler: Karpenter's documentation advises against a Node Termination Handler next to it. If both must run, give each a queue of its own, and let only one act on each kind of notice",
	Look:     Look{Lane: LaneHandler, Text: "the lanes Handler and Node: who received and deleted the message, and whose write came first? Then handler.log and second-handler.log"},
}, handlersAgree)

// handlersAgree judges by the access keys of the calls of SQS, and by the users in the API
// server's audit log.
func handlersAgree(j judge, v Verdict, c HandlersAgree) Verdict {
	v = v.requires("one of the two handlers drains the node, and the other one does not interfere", c.Node)
	node, put, why := story.NoticedByTwo(j.Story, c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	acts := story.ActsOn(j.Story, node)
	first, second := acts[""], acts[history.OtherHandler]
	v.Numbers = map[string]float64{"acts": float64(len(first)), "second_acts": float64(len(second))}
	evidence := []history.Event{put}
	var conflicts []string
	conflict := func(what string, shown ...history.Event) {
		conflicts, evidence = append(conflicts, what), append(evidence, shown...)
	}
	for _, deleted := range story.Stolen(j.Story, put, acts) {
		conflict(fmt.Sprintf("%s received and deleted the message at +%s and did nothing with %s", story.NameOf(j.Story, deleted.By), history.Seconds(deleted.At), node), deleted)
	}
	if len(first) > 0 && len(second) > 0 {
		order := []history.Event{first[0], second[0]}
		slices.SortFunc(order, story.BySaid)
		v.Numbers["apart_seconds"] = (*order[1].Said - *order[0].Said).Seconds()
		conflict(fmt.Sprintf("both drain: %s first, %s %s later (%s)", story.NameOf(j.Story, order[0].By), story.NameOf(j.Story, order[1].By), history.Seconds(*order[1].Said-*order[0].Said), story.CountActs(j.Story, acts)), order...)
	}
	for _, e := range story.TakenOff(j.Story, node, put) {
		conflict(fmt.Sprintf("a mark was taken off %s at +%s (%s %s)", node, history.Seconds(e.At), e.Kind, e.Setting().Key), e)
	}
	switch {
	case len(conflicts) > 0:
		return v.fail("conflict: "+strings.Join(conflicts, "; "), capped(evidence)...)
	case j.Unseen(j.Stays(node)) != "":
		return v.unknown("no conflict: "+j.Unseen(j.Stays(node)), put)
	case len(first)+len(second) == 0:
		return v.unknown("neither handler did anything with "+node, put)
	}
	one := slices.Concat(first, second)[0]
	return v.pass(fmt.Sprintf("only %s acted, %s after the notice", story.NameOf(j.Story, one.By), history.Seconds(*one.Said-put.At)), put, one)
}
