package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// NoticedByTwo is Noticed for what requires that it is known which of two handlers did what.
func NoticedByTwo(st *Story, name, notice string) (node string, put history.Event, why string) {
	node, put, why = st.Noticed(name, notice)
	switch {
	case why != "":
	case st.History.Meta.Other == nil:
		why = "the history has no second handler"
	case !st.Audited():
		why = "the API server's audit log was not read, so who did what is unknown"
	}
	return node, put, why
}

// NameOf is the name of the handler that did something.
func NameOf(st *Story, by string) string {
	if by == history.OtherHandler && st.History.Meta.Other != nil {
		return st.History.Meta.Other.Name
	}
	return st.History.Meta.Handler.Name
}

// BySaid orders events by the times that the audit log gives their requests.
func BySaid(a, b history.Event) int { return cmp.Compare(*a.Said, *b.Said) }

// ActsOn are the changes of a node that each handler requested while its instance was there, and
// the evictions and deletions of its pods, by history.Event.By and in the order of the requests.
func ActsOn(st *Story, node string) map[string][]history.Event {
	pods := map[string]bool{}
	for _, p := range st.Pods {
		if _, there := p.First(func(e history.Event) bool { return e.Node == node }); there {
			pods[p.Name()] = true
		}
	}
	acts, gone := map[string][]history.Event{}, st.Gone(node)
	for _, e := range st.History.Events {
		about := e.Kind == history.HandlerWrote && e.Node == node || e.Kind == history.HandlerTook && pods[e.Pod]
		if about && e.Said != nil && *e.Said >= st.Begun && *e.Said < gone {
			acts[e.By] = append(acts[e.By], e)
		}
	}
	for _, of := range acts {
		slices.SortFunc(of, BySaid)
	}
	return acts
}

// Stolen are the deletions of the notice's messages by a handler that did nothing with the node,
// where the other one received none of them.
func Stolen(st *Story, put history.Event, acts map[string][]history.Event) []history.Event {
	ids := st.MessagesOf(put)
	received := map[string]bool{}
	for _, e := range st.AllOf(history.SQSReceived) {
		if slices.Contains(ids, e.Message) {
			received[e.By] = true
		}
	}
	other := map[string]string{"": history.OtherHandler, history.OtherHandler: ""}
	return st.All(func(e history.Event) bool {
		return e.Kind == history.SQSDeleted && slices.Contains(ids, e.Message) && len(acts[e.By]) == 0 && !received[other[e.By]]
	})
}

// TakenOff are the marks of either handler that came off the node while its instance was there.
func TakenOff(st *Story, node string, put history.Event) []history.Event {
	until := st.There(node)
	taints := []string{st.History.Meta.Handler.Taint, st.History.Meta.Other.Taint}
	return st.All(func(e history.Event) bool {
		if e.Node != node || e.At < put.At || e.At >= until || st.ByOperator(e) {
			return false
		}
		return e.Kind == history.NodeUncordoned || e.Kind == history.NodeUntainted && e.Setting().Key != "" && slices.Contains(taints, e.Setting().Key)
	})
}

// CountActs counts the acts of both handlers, in words.
func CountActs(st *Story, acts map[string][]history.Event) string {
	var out []string
	for _, by := range []string{"", history.OtherHandler} {
		evictions := 0
		for _, e := range acts[by] {
			if e.Kind == history.HandlerTook {
				evictions++
			}
		}
		out = append(out, fmt.Sprintf("%s: %d changes of the node, %d evictions", NameOf(st, by), len(acts[by])-evictions, evictions))
	}
	return strings.Join(out, "; ")
}
