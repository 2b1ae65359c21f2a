package story

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Removal is the removal of a node without a notice.
type Removal struct {
	Begun history.Event // its mark, or its first pod that had to leave
	Until time.Duration // its instance was terminated
}

// Removals are those that began because of a step. The harness sees the end of an instance up
// to EndSeen late, and the handler may begin the next one meanwhile.
func (st *Story) Removals(step string) (out []Removal) {
	for _, cause := range st.All(func(e history.Event) bool { return RemovedFor(e, step) && e.Node != "" }) {
		begun, ok := st.MarkedAfter(cause.Node, cause)
		if first, leaves := st.FirstToLeave(cause.Node, cause); leaves && (!ok || first.At < begun.At) {
			begun, ok = first, true
		}
		if !ok {
			continue
		}
		r := Removal{Begun: begun, Until: st.End}
		ended, ok := st.First(func(e history.Event) bool {
			return e.Kind == history.InstanceEnded && e.Node == cause.Node && e.At >= cause.At
		})
		if ok {
			r.Until = ended.At - EndSeen
		}
		if gone, ok := st.DeletedAfter(cause.Node, cause.At); ok {
			r.Until = min(r.Until, gone.At)
		}
		out = append(out, r)
	}
	return out
}

// DeletedAfter is the deletion of the Node object after that time.
func (st *Story) DeletedAfter(node string, at time.Duration) (history.Event, bool) {
	return st.First(func(e history.Event) bool { return e.Kind == history.NodeDeleted && e.Node == node && e.At >= at })
}

// EndSeen is within what time the harness sees that an instance is terminated: EC2 is asked
// every second, and stopping the node's container takes another one or two.
const EndSeen = 5 * time.Second

// FirstToLeave is the first event by which a pod of the node was to go.
func (st *Story) FirstToLeave(node string, cause history.Event) (first history.Event, ok bool) {
	for _, p := range st.ToLeave(node, cause.At) {
		e, leaves := p.First(func(e history.Event) bool {
			return (e.Kind == history.PodEvicted || e.Kind == history.PodTerminating) && e.At >= cause.At
		})
		if leaves && (!ok || e.At < first.At) {
			first, ok = e, true
		}
	}
	return first, ok
}

// RemovedFor reports whether the handler has to remove the event's node because of that step.
func RemovedFor(e history.Event, step string) bool {
	return (e.Kind == history.HandlerReconfigured || ToFinish(e)) && e.Step() == step
}

// LaunchedSince are the events by which the nodes of instances that were launched since the
// cause became Ready, each the first of its node.
func (st *Story) LaunchedSince(cause history.Event) []history.Event {
	// That an instance joined may be seen seconds after its node is Ready.
	launched, joined := map[string]bool{}, map[string]bool{}
	for _, e := range st.AllOf(history.InstanceLaunched, history.InstanceJoined) {
		launched[e.Instance] = launched[e.Instance] || e.Instance != "" && e.At >= cause.At
		joined[e.Node] = joined[e.Node] || e.Node != "" && e.At >= cause.At
	}
	var out []history.Event
	for _, e := range st.AllOf(history.NodeReady) {
		if e.At >= cause.At && (joined[e.Node] || launched[e.Instance]) {
			out, joined[e.Node], launched[e.Instance] = append(out, e), false, false
		}
	}
	return out
}

// Configured returns the node behind a name, and the event because of which the handler has
// to remove it.
func Configured(st *Story, name, of string) (node string, cause history.Event, why string) {
	if node, why = st.Node(name); why != "" {
		return "", cause, why
	}
	cause, ok := st.First(func(e history.Event) bool { return RemovedFor(e, of) && e.Node == node })
	if !ok {
		why = fmt.Sprintf("%q never called for the removal of %s (%s)", of, node, name)
	}
	return node, cause, why
}

// DrainsBegun is how many of the nodes that are removed for the same cause a pod had to leave
// by then.
func DrainsBegun(st *Story, cause history.Event, by time.Duration) (n int) {
	for _, e := range st.All(func(e history.Event) bool { return RemovedFor(e, cause.Step()) }) {
		if first, ok := st.FirstToLeave(e.Node, e); ok && first.At <= by {
			n++
		}
	}
	return n
}

// AtOnce returns the events that began the most removals which were under way at the same time.
func AtOnce(all []Removal) (most []history.Event) {
	for _, r := range all {
		var now []history.Event
		for _, o := range all {
			if o.Begun.Seq == r.Begun.Seq || o.Begun.At <= r.Begun.At && r.Begun.At < o.Until {
				now = append(now, o.Begun)
			}
		}
		if len(now) > len(most) {
			most = now
		}
	}
	return most
}
