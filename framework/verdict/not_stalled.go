package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// NotStalled has the parameters of checkNotStalled.
type NotStalled struct {
	NodePods `yaml:",inline"`
}

var checkNotStalled = by(Kind{
	ID: "notStalled", Title: "not stalled by %s",
	Requires: "Every other evictable pod of the node begins to terminate before the first of these slow ones is gone. Pods of the system priority classes may wait.",
	Fix:      "evict all pods in parallel: do not wait until one is gone before the next is evicted",
	Look:     Look{Lane: LanePods, Text: "the lane Pods: which pod began to terminate only after another had gone?"},
}, notStalled)

func notStalled(j judge, v Verdict, c NotStalled) Verdict {
	v = v.requires("every other pod terminating before the first of these is gone", c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	limit := j.Over(put)
	var slow, others []story.Pod
	for _, p := range j.ToLeave(node, put.At) {
		switch {
		case p.In(c.Pods):
			slow = append(slow, p)
			if e, ok := p.Stopped(); ok {
				limit = min(limit, e.At)
			}
		case !p.Critical():
			others = append(others, p)
		}
	}
	others = slices.DeleteFunc(others, func(p story.Pod) bool { return p.FinishedBy(limit) })
	if len(slow) == 0 || len(others) == 0 {
		return v.unknown(fmt.Sprintf("%d %s pods and %d others were on %s", len(slow), c.Pods, len(others), node), put)
	}
	last := put
	// The slow ones stall each other too, if the handler waits for each in turn.
	for _, p := range append(others, slow...) {
		terminating, ok := p.Terminating()
		if !ok || terminating.At > limit {
			if why := j.Unseen(limit); why != "" {
				return v.unknown(fmt.Sprintf("%s had not begun to terminate: %s", p.Name(), why), put)
			}
			return v.fail(fmt.Sprintf("%s had not begun to terminate by %s after the notice, when the first was gone", p.Name(), history.Seconds(limit-put.At)), put)
		}
		if terminating.At > last.At {
			last = terminating
		}
	}
	v.Numbers = map[string]float64{"pods": float64(len(others) + len(slow)), "told_seconds": (last.At - put.At).Seconds()}
	return v.pass(fmt.Sprintf("all %d began to terminate after %s", len(others)+len(slow), history.Seconds(last.At-put.At)), put, last)
}
