package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkMarkedFirst = check{
	Kind: Kind{
		ID: "markedFirst", Title: "%s marked before its first eviction",
		Requires: "The API server has confirmed a mark of the node, one that the handler's description names, before the handler requests the first pod of the node to leave.",
		Fix:      "wait for the answer that confirms the cordon or taint, and evict only then: a pod that is evicted before may come back to the node; a mark that fails, such as with 409, must be set again first",
		Look:     Look{Lane: LaneNode, Text: "the lanes Node and Pods; then the events api.call of history.jsonl about the node and about its pods"},
	},
	judge: by(markedFirst),
}

func markedFirst(j judge, v Verdict, c scenarios.MarkedFirst) Verdict {
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

var checkRetried = check{
	Kind: Kind{
		ID: "retried", Title: "retried after %s",
		Requires: "What the API server refused or did not answer is done in the end: within a time of the last call that the fault hit, the handler has changed the same object, or read the same resource.",
		Fix:      "repeat a call that fails with 409 (read the object again first), 429, 500, 503 or a broken connection, with a pause; if you give up, leave the message in the queue, so that it comes again",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler; then the events api.call of history.jsonl with the fault's name, and what follows them"},
	},
	judge: by(retried),
}

func retried(j judge, v Verdict, c scenarios.Retried) Verdict {
	v = v.wants(fmt.Sprintf("each call that the fault hit, done within %s of the last try", c.Within.D()), c.Fault)
	hit, why := j.hitCalls(c.Fault)
	if why != "" {
		return v.unknown(why)
	}
	last := map[string]history.Event{}
	for _, e := range hit {
		last[purpose(e)] = e // in order of time
	}
	evidence := []history.Event{hit[0]}
	var unknown *Verdict
	for _, e := range byTime(last) {
		done, ok := j.First(func(d history.Event) bool {
			return (d.Kind == history.APICall || d.Kind == history.APIFolded) && d.At > e.At && story.Done(d) && purpose(d) == purpose(e)
		})
		until := e.At + c.Within.D()
		call := fmt.Sprintf("%s of %s, last tried at +%s, ", e.Action, strings.TrimSpace(e.Resource+" "+cmp.Or(e.Node, e.Pod, e.Object)), history.Seconds(e.At))
		switch {
		case ok && done.At <= until:
			evidence = append(evidence, e, done)
		case j.needless(e, until):
		case !ok && j.Unrecorded(until) != "":
			u := v.unknown(call+"not done: "+j.Unrecorded(until), e)
			unknown = &u
		case ok:
			return v.fail(call+"done only after "+history.Seconds(done.At-e.At), e, done)
		default:
			return v.fail(call+"never done", e)
		}
	}
	if unknown != nil {
		return *unknown
	}
	v.Numbers = map[string]float64{"calls": float64(len(hit)), "objects": float64(len(last))}
	return v.pass(fmt.Sprintf("%d calls hit, all of them done in the end", len(hit)), capped(evidence)...)
}

// hitCalls are the calls on record that the fault hit, in order of time. If they show nothing,
// why is the reason. A fault that affects a number of calls may not have ended: a handler
// that gives up too early makes too few.
func (j judge) hitCalls(fault string) (calls []history.Event, why string) {
	if why := j.APIUnrecorded(); why != "" {
		return nil, why
	}
	calls = j.APICalls(func(e history.Event) bool { return e.Fault == fault })
	if len(calls) == 0 { // one that is never answered may never end
		calls = j.All(func(e history.Event) bool { return e.Kind == history.FaultHit && e.Step() == fault && e.Resource != "" })
	}
	if len(calls) == 0 {
		return nil, fmt.Sprintf("fault %q hit no call", fault)
	}
	return calls, ""
}

// purpose is what a call is for: calls for the same purpose can replace each other.
func purpose(e history.Event) string {
	switch e.Action {
	case "get", "list":
		return "read " + e.Resource
	case "watch":
		return "watch " + e.Resource
	}
	return "write " + strings.Join([]string{e.Resource, e.Node, e.Pod, e.Object}, " ")
}

func byTime(calls map[string]history.Event) []history.Event {
	var out []history.Event
	for _, e := range calls {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b history.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// needless reports whether nothing was left to do with the call's object at that time: the
// pod had ended, or the instance of the node, or of the pod's node, was gone.
func (j judge) needless(e history.Event, at time.Duration) bool {
	if e.Node != "" {
		return j.Gone(e.Node) <= at
	}
	if e.Pod == "" {
		return false
	}
	there := slices.ContainsFunc(j.Pods, func(p story.Pod) bool {
		if p.Name() != e.Pod || p.Since() > e.At {
			return false
		}
		end, ended := p.FirstOf(history.PodTerminating, history.PodDeleted)
		return (!ended || end.At > at) && j.Gone(p.Node()) > at
	})
	return !there
}
