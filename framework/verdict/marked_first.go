package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// MarkedFirst has the parameters of checkMarkedFirst.
type MarkedFirst struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// Validate checks the parameters.
func (c MarkedFirst) Validate(in *scenarios.Scope) {
	in.NoticeFor(c.Node, c.Notice)
}

// DecidedBy is how long it needs the recording.
func (c MarkedFirst) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Deadlines[c.Notice]).On(c.Node, t)
}

var checkMarkedFirst = check{
	Kind: Kind{
		ID: "markedFirst", Title: "%s marked before its first eviction",
		Requires: "The API server has confirmed a mark of the node, one that the handler's description names, before the handler requests the first pod of the node to leave.",
		Fix:      "wait for the answer that confirms the cordon or taint, and evict only then: a pod that is evicted before may come back to the node; a mark that fails, such as with 409, must be set again first",
		Look:     Look{Lane: LaneNode, Text: "the lanes Node and Pods; then the events api.call of history.jsonl about the node and about its pods"},
	},
	judge: by(markedFirst),
}

func markedFirst(j judge, v Verdict, c MarkedFirst) Verdict {
	handler := j.History.Meta.Handler
	v = v.wants(claimedMarks(handler)+", confirmed before the first pod is asked to leave", c.Node)
	if !handler.Unschedulable && handler.Taint == "" {
		return v.unknown(fmt.Sprintf("the description of handler %q claims no mark", handler.Name))
	}
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	if why := j.APIUnrecorded(); why != "" {
		return v.unknown(why, put)
	}
	removals := j.APICalls(func(e history.Event) bool {
		return story.Removes(e) && story.Arrived(e) >= put.At && j.podOn(e.Pod, node, story.Arrived(e))
	})
	if len(removals) == 0 {
		return v.unknown("no pod of "+node+" was asked to leave", put)
	}
	first := slices.MinFunc(removals, func(a, b history.Event) int { return cmp.Compare(story.Arrived(a), story.Arrived(b)) })
	asked := story.Arrived(first)
	writes := j.APICalls(func(e history.Event) bool { return e.Node == node && e.At >= put.At && story.Done(e) })
	i := slices.IndexFunc(writes, j.SetsMark)
	switch {
	case i >= 0 && writes[i].At <= asked:
		return v.pass(fmt.Sprintf("%s marked %s before %s was asked to leave", node, history.Seconds(asked-writes[i].At), first.Pod), put, writes[i], first)
	case slices.ContainsFunc(writes, func(e history.Event) bool { return slices.Contains(e.Marks(), history.MarksUnknown) && e.At <= asked }):
		return v.unknown(node+" was written to before the first eviction, in a format that the recording proxy cannot read", put, first)
	case i >= 0:
		return v.fail(fmt.Sprintf("%s asked to leave %s before %s was marked", first.Pod, history.Seconds(writes[i].At-asked), node), put, first, writes[i])
	}
	return v.fail(fmt.Sprintf("%s asked to leave, and %s never marked", first.Pod, node), put, first)
}

// podOn reports whether a pod of that name was on the node at that time.
func (j judge) podOn(name, node string, at time.Duration) bool {
	return slices.ContainsFunc(j.Pods, func(p story.Pod) bool { return p.Name() == name && p.On(node, at) })
}
