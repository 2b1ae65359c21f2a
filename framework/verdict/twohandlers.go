package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkHandlersAgree = check{
	Kind: Kind{
		ID: "handlersAgree", Title: "handlers agree about %s",
		Requires: "One of two handlers drains the node. The other neither changes the node nor asks a pod of it to leave, deletes no message for which nobody acts, and takes no mark off.",
		Fix:      "run one interruption handler: Karpenter's documentation advises against a Node Termination Handler next to it. If both must run, give each a queue of its own, and let only one act on each kind of notice",
		Look:     Look{Lane: LaneHandler, Text: "the lanes Handler and Node: who received and deleted the message, and whose write came first? Then handler.log and second-handler.log"},
	},
	judge: by(handlersAgree),
}

// handlersAgree judges by the access keys of the calls of SQS, and by the users in the API
// server's audit log.
func handlersAgree(j judge, v Verdict, c scenarios.HandlersAgree) Verdict {
	v = v.wants("one of the two handlers drains the node, and the other one does not interfere", c.Node)
	node, put, why := j.noticedByTwo(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	acts := j.actsOn(node)
	first, second := acts[""], acts[history.OtherHandler]
	v.Numbers = map[string]float64{"acts": float64(len(first)), "second_acts": float64(len(second))}
	evidence := []history.Event{put}
	var conflicts []string
	conflict := func(what string, shown ...history.Event) {
		conflicts, evidence = append(conflicts, what), append(evidence, shown...)
	}
	for _, deleted := range j.stolen(put, acts) {
		conflict(fmt.Sprintf("%s received and deleted the message at +%s and did nothing with %s", j.nameOf(deleted.By), history.Seconds(deleted.At), node), deleted)
	}
	if len(first) > 0 && len(second) > 0 {
		order := []history.Event{first[0], second[0]}
		slices.SortFunc(order, bySaid)
		v.Numbers["apart_seconds"] = (*order[1].Said - *order[0].Said).Seconds()
		conflict(fmt.Sprintf("both drain: %s first, %s %s later (%s)", j.nameOf(order[0].By), j.nameOf(order[1].By), history.Seconds(*order[1].Said-*order[0].Said), j.both(acts)), order...)
	}
	for _, e := range j.takenOff(node, put) {
		conflict(fmt.Sprintf("a mark was taken off %s at +%s (%s %s)", node, history.Seconds(e.At), e.Kind, e.Setting().Key), e)
	}
	switch {
	case len(conflicts) > 0:
		return v.fail("conflict: "+strings.Join(conflicts, "; "), capped(evidence)...)
	case j.Unseen(j.Gone(node)) != "":
		return v.unknown("no conflict: "+j.Unseen(j.Gone(node)), put)
	case len(first)+len(second) == 0:
		return v.unknown("neither handler did anything with "+node, put)
	}
	one := slices.Concat(first, second)[0]
	return v.pass(fmt.Sprintf("only %s acted, %s after the notice", j.nameOf(one.By), history.Seconds(*one.Said-put.At)), put, one)
}

// noticedByTwo is Noticed for what requires that it is known which of two handlers did what.
func (j judge) noticedByTwo(name, notice string) (node string, put history.Event, why string) {
	node, put, why = j.Noticed(name, notice)
	switch {
	case why != "":
	case j.History.Meta.Other == nil:
		why = "the history has no second handler"
	case !j.Audited():
		why = "the API server's audit log was not read, so who did what is unknown"
	}
	return node, put, why
}

// nameOf is the name of the handler that did something.
func (j judge) nameOf(by string) string {
	if by == history.OtherHandler && j.History.Meta.Other != nil {
		return j.History.Meta.Other.Name
	}
	return j.History.Meta.Handler.Name
}

func bySaid(a, b history.Event) int { return cmp.Compare(*a.Said, *b.Said) }

// actsOn are the changes of a node that each handler requested while its instance was there, and
// the evictions and deletions of its pods, by history.Event.By and in the order of the requests.
func (j judge) actsOn(node string) map[string][]history.Event {
	pods := map[string]bool{}
	for _, p := range j.Pods {
		if _, there := p.First(func(e history.Event) bool { return e.Node == node }); there {
			pods[p.Name()] = true
		}
	}
	acts, gone := map[string][]history.Event{}, j.Gone(node)
	for _, e := range j.History.Events {
		about := e.Kind == history.HandlerWrote && e.Node == node || e.Kind == history.HandlerTook && pods[e.Pod]
		if about && e.Said != nil && *e.Said >= j.Begun && *e.Said < gone {
			acts[e.By] = append(acts[e.By], e)
		}
	}
	for _, of := range acts {
		slices.SortFunc(of, bySaid)
	}
	return acts
}

// both counts the acts of both handlers.
func (j judge) both(acts map[string][]history.Event) string {
	var out []string
	for _, by := range []string{"", history.OtherHandler} {
		took := len(filter(acts[by], func(e history.Event) bool { return e.Kind == history.HandlerTook }))
		out = append(out, fmt.Sprintf("%s: %d changes of the node, %d evictions", j.nameOf(by), len(acts[by])-took, took))
	}
	return strings.Join(out, "; ")
}

// stolen are the deletions of the notice's messages by a handler that did nothing with the node,
// where the other one received none of them.
func (j judge) stolen(put history.Event, acts map[string][]history.Event) []history.Event {
	ids := j.MessagesOf(put)
	received := map[string]bool{}
	for _, e := range j.AllOf(history.SQSReceived) {
		if slices.Contains(ids, e.Message) {
			received[e.By] = true
		}
	}
	other := map[string]string{"": history.OtherHandler, history.OtherHandler: ""}
	return filter(j.AllOf(history.SQSDeleted), func(e history.Event) bool {
		return slices.Contains(ids, e.Message) && len(acts[e.By]) == 0 && !received[other[e.By]]
	})
}

// takenOff are the marks of either handler that came off the node while its instance was there.
func (j judge) takenOff(node string, put history.Event) []history.Event {
	until := j.there(node)
	taints := []string{j.History.Meta.Handler.Taint, j.History.Meta.Other.Taint}
	return j.All(func(e history.Event) bool {
		if e.Node != node || e.At < put.At || e.At >= until || j.ByOperator(e) {
			return false
		}
		return e.Kind == history.NodeUncordoned || e.Kind == history.NodeUntainted && e.Setting().Key != "" && slices.Contains(taints, e.Setting().Key)
	})
}

var checkLeadGained = check{
	Kind: Kind{
		ID: "leadGained", Title: "lead of the second handler on %s",
		Requires: "The second handler changes the node, or asks a pod of it to leave, some time before the notice that the handler under test drains for.",
		Fix:      "let the second handler drain for what comes before that notice, such as a rebalance recommendation; or remove it: it gains nothing then",
		Look:     Look{Lane: LaneHandler, Text: "the lanes Handler and Node: which notice came first, and what did the second handler do with it? Then second-handler.log"},
	},
	judge: by(leadGained),
}

func leadGained(j judge, v Verdict, c scenarios.LeadGained) Verdict {
	v = v.wants(fmt.Sprintf("the second handler acts at least %s before notice %q", c.AtLeast.D(), c.Notice), c.Node)
	node, put, why := j.noticedByTwo(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	acts := j.actsOn(node)[history.OtherHandler]
	if len(acts) == 0 {
		return v.fail(fmt.Sprintf("%s did nothing with %s", j.nameOf(history.OtherHandler), node), put)
	}
	lead := put.At - *acts[0].Said
	v.Numbers = map[string]float64{"lead_seconds": lead.Seconds()}
	if lead < c.AtLeast.D() {
		return v.fail(fmt.Sprintf("%s acted %s", j.nameOf(history.OtherHandler), beforeOrAfter(lead)), put, acts[0])
	}
	return v.pass(fmt.Sprintf("%s acted %s", j.nameOf(history.OtherHandler), beforeOrAfter(lead)), put, acts[0])
}

// beforeOrAfter is a lead in words.
func beforeOrAfter(lead time.Duration) string {
	if lead < 0 {
		return history.Seconds(-lead) + " after the notice"
	}
	return history.Seconds(lead) + " before the notice"
}
