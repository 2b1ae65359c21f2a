package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
)

// untouchedAll requires that none of the chosen nodes is touched before a cause for it.
func (j judge) untouchedAll(v Verdict, chosen func(history.Event) bool) Verdict {
	nodes := map[string]bool{}
	var touched, unclear []history.Event
	for _, n := range j.Events {
		if n.Kind != history.NodePresent || nodes[n.Node] || !chosen(n) {
			continue
		}
		nodes[n.Node] = true
		cause, caused := j.cause(n.Node)
		causeless := func(e history.Event) bool { return !caused || e.At < cause.At }
		blamed, perhaps := j.Touches(n.Node)
		touched = append(touched, filter(blamed, causeless)...)
		unclear = append(unclear, filter(perhaps, causeless)...)
	}
	switch {
	case len(touched) > 0:
		return v.fail(fmt.Sprintf("%s: %s", touched[0].Node, describe(touched)), capped(touched)...)
	case len(nodes) == 0:
		return v.unknown("no such node was seen")
	case len(unclear) > 0:
		return v.unknown(fmt.Sprintf("%s: %s", unclear[0].Node, unclearWho(unclear)), capped(unclear)...)
	case j.Unseen(j.End) != "":
		return v.unknown("none touched: " + j.Unseen(j.End))
	}
	return v.pass(fmt.Sprintf("none of %d touched", len(nodes)))
}

// cause is the first of the node's causes.
func (j judge) cause(node string) (history.Event, bool) {
	if causes := j.Causes(node); len(causes) > 0 {
		return causes[0], true
	}
	return history.Event{}, false
}
