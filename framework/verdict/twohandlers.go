package verdict

import (
	"cmp"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
)

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
