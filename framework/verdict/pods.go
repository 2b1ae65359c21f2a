package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// left requires that the chosen pods of the node are left alone.
func (j judge) left(v Verdict, name, what string, chosen func(story.Pod) bool) Verdict {
	node, why := j.Node(name)
	if why != "" {
		return v.unknown(why)
	}
	until := j.Gone(node)
	if j.History.Meta.Handler.DeletesNode {
		// Garbage collection takes the pods of a Node object that is gone.
		if e, ok := j.First(func(e history.Event) bool { return e.Kind == history.NodeDeleted && e.Node == node }); ok {
			until = min(until, e.At)
		}
	}
	var taken []history.Event
	pods := 0
	for _, p := range j.Pods {
		arrived, ok := p.Arrived(node)
		if !ok || arrived.At >= until || !chosen(p) {
			continue
		}
		pods++
		if e, ok := p.First(func(e history.Event) bool {
			return e.At < until && slices.Contains([]history.Kind{history.PodEvicted, history.PodTerminating, history.PodDeleted}, e.Kind)
		}); ok {
			taken = append(taken, e)
		}
	}
	v.Numbers = map[string]float64{strings.ReplaceAll(what, "-", "_") + "_pods": float64(pods), "taken": float64(len(taken))}
	switch {
	case pods == 0:
		return v.unknown(fmt.Sprintf("no %s pod was on %s", what, node))
	case len(taken) > 0:
		return v.fail(fmt.Sprintf("%d of %d %s pods taken: %s", len(taken), pods, what, describe(taken)), capped(taken)...)
	case j.Unseen(until) != "":
		return v.unknown("none taken: " + j.Unseen(until))
	}
	return v.pass(fmt.Sprintf("%d %s pods left alone", pods, what))
}
