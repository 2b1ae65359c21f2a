package story

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Pod is what the history shows of one pod: all events with its UID.
type Pod struct {
	Events []history.Event // in order of time, never empty
	taint  string          // of the handler
}

// First returns the pod's first event that ok accepts.
func (p Pod) First(ok func(history.Event) bool) (history.Event, bool) {
	if i := slices.IndexFunc(p.Events, ok); i >= 0 {
		return p.Events[i], true
	}
	return history.Event{}, false
}

// FirstOf returns the pod's first event of any of the kinds.
func (p Pod) FirstOf(kinds ...history.Kind) (history.Event, bool) {
	return p.First(func(e history.Event) bool { return slices.Contains(kinds, e.Kind) })
}

// Name is the pod's namespace/name.
func (p Pod) Name() string { return p.Events[0].Pod }

// UID is the pod's.
func (p Pod) UID() string { return p.Events[0].UID }

// HasIP reports whether the pod had that IP.
func (p Pod) HasIP(ip string) bool {
	return ip != "" && slices.ContainsFunc(p.Events, func(e history.Event) bool { return e.IP == ip })
}

// Controller is the kind/name of the pod's controller, or "".
func (p Pod) Controller() string { return p.Events[0].Owner }

// Since is when the pod was first seen; 0 if it existed when recording started.
func (p Pod) Since() time.Duration {
	if p.Events[0].Kind == history.PodPresent {
		return 0
	}
	return p.Events[0].At
}

// Node is the node that the pod is or was on, or "".
func (p Pod) Node() string {
	for _, e := range p.Events {
		if e.Node != "" {
			return e.Node
		}
	}
	return ""
}

// Arrived returns the first event that shows the pod on the node.
func (p Pod) Arrived(node string) (history.Event, bool) {
	return p.First(func(e history.Event) bool { return e.Node == node && e.Kind != history.PodDeleted })
}

// Deleted returns the event by which the pod was gone from the API.
func (p Pod) Deleted() (history.Event, bool) { return p.FirstOf(history.PodDeleted) }

// Terminating returns the event by which the pod began to terminate.
func (p Pod) Terminating() (history.Event, bool) { return p.FirstOf(history.PodTerminating) }

// AskedToEnd returns the event by which the pod was asked to end: its deletion or, without one, as at a shutdown of its
// node, the SIGTERM that its CoreDNS logged.
func (p Pod) AskedToEnd() (history.Event, bool) {
	return p.FirstOf(history.PodTerminating, history.PodSignalled, history.PodLameduck)
}

// EndsBy reports whether the pod begins to end by this event. A pod that is deleted with
// no grace at all never terminates.
func (p Pod) EndsBy(e history.Event) bool {
	end, ok := p.FirstOf(history.PodTerminating, history.PodDeleted)
	return ok && e.Kind == end.Kind && e.At == end.At
}

// Stopped returns the event by which the pod's containers had ended, or if that was
// not seen, by which the pod was gone.
func (p Pod) Stopped() (history.Event, bool) {
	return p.FirstOf(history.PodExited, history.PodDeleted)
}

// ReadyAt returns the event by which the pod became Ready, if it still was at that time
// and had not begun to terminate.
func (p Pod) ReadyAt(at time.Duration) (ready history.Event, ok bool) {
	for _, e := range p.Events {
		if e.At > at {
			break
		}
		switch e.Kind {
		case history.PodReady:
			ready, ok = e, true
		case history.PodNotReady, history.PodExited:
			ok = false
		case history.PodTerminating, history.PodDeleted:
			return history.Event{}, false
		}
	}
	return ready, ok
}

// On reports whether the pod was on the node at that time.
func (p Pod) On(node string, at time.Duration) bool {
	arrived, ok := p.Arrived(node)
	if !ok || arrived.At > at {
		return false
	}
	deleted, ok := p.Deleted()
	return !ok || deleted.At > at
}

// Finished returns the event by which the pod had finished by itself: a drain leaves it
// from then on.
func (p Pod) Finished() (history.Event, bool) { return history.Finished(p.Events) }

// FinishedBy reports whether the pod had finished by itself at that time.
func (p Pod) FinishedBy(at time.Duration) bool {
	finished, ok := p.Finished()
	return ok && finished.At <= at
}

// Left returns the event by which nothing of the pod was left for a drain to move: it
// was gone or had finished by itself.
func (p Pod) Left() (history.Event, bool) {
	if finished, ok := p.Finished(); ok {
		return finished, true
	}
	return p.Deleted()
}

// Evictable reports whether a drain has to move the pod, as long as it has not finished.
func (p Pod) Evictable() bool { return history.Evictable(p.Events, p.taint) }

// Number is a figure that the history gave the pod when it first reported it.
func (p Pod) Number(name history.Number) float64 { return p.Events[0].Numbers[name] }

// In reports whether the pod goes by this name in the scenario's workload.
func (p Pod) In(group string) bool { return p.Events[0].Group() == group }

// criticalPriority is where the system's own priority classes begin.
const criticalPriority = 2_000_000_000

// Critical reports whether the pod has one of the system's priority classes.
func (p Pod) Critical() bool { return p.Number(history.Priority) >= criticalPriority }

// OfHandler reports whether the pod is one of the handler's.
func (p Pod) OfHandler(h history.Handler) bool {
	namespace, name, _ := strings.Cut(h.Workload(), "/")
	_, ok := p.First(func(e history.Event) bool {
		if h.DaemonSet != "" {
			return e.Owner == "DaemonSet/"+name && strings.HasPrefix(e.Pod, namespace+"/")
		}
		set, found := strings.CutPrefix(e.Owner, "ReplicaSet/"+name+"-")
		return found && !strings.Contains(set, "-") && strings.HasPrefix(e.Pod, namespace+"/")
	})
	return ok
}

// ToLeave are the evictable pods that were on the node at that time and had not finished.
func (st *Story) ToLeave(node string, at time.Duration) []Pod {
	var out []Pod
	for _, p := range st.Pods {
		if p.On(node, at) && p.Evictable() && !p.FinishedBy(at) {
			out = append(out, p)
		}
	}
	return out
}

// SeenLate is how much later than it happened a change of the cluster may be on
// record: a watch has to deliver it first.
const SeenLate = 500 * time.Millisecond

// InFlight is how long after a mark the scheduler may still be seen to bind a pod to
// the node: it watches the node too, and the pod may be on record later than the mark.
const InFlight = 2 * SeenLate

// ToDrain are the pods that a drain for the notice has to move: the evictable ones
// that were on the node when the notice was put, and those that came before the
// handler marked the node or were in flight then.
func (st *Story) ToDrain(node string, put history.Event) []Pod {
	out := st.ToLeave(node, put.At)
	mark, ok := st.MarkedAfter(node, put)
	for _, p := range st.Pods {
		if came, there := p.Arrived(node); ok && there && came.At > put.At && came.At < mark.At+InFlight && p.Evictable() {
			out = append(out, p)
		}
	}
	return out
}

// PodAt returns the pod with an IP; the last one if several had it in turn.
func (st *Story) PodAt(ip string) *Pod {
	for _, p := range slices.Backward(st.Pods) {
		if _, ok := p.First(func(e history.Event) bool { return e.IP == ip }); ok {
			return &p
		}
	}
	return nil
}

// PendingPods are the pods that were bound to no node at that time, and what the scheduler reported of
// one of them before.
func PendingPods(st *Story, pods []Pod, at time.Duration) (out []Pod, said history.Event) {
	for _, p := range pods {
		bound, ok := p.FirstOf(history.PodScheduled)
		if p.Since() > at || p.Node() != "" && !ok || ok && bound.At <= at {
			continue
		}
		out = append(out, p)
		words, ok := st.First(func(e history.Event) bool {
			return e.Kind == history.ClusterEvent && e.KubernetesReason() == "FailedScheduling" && e.Pod == p.Name() && e.At <= at
		})
		if ok && said.Kind == "" {
			said = words
		}
	}
	return out, said
}

// NodesWithout are the nodes that lack a Ready one of these pods at that time: those that were to
// be replaced and are still there, and the launched ones. The last of them became Ready by last.
func NodesWithout(st *Story, pods []Pod, cause history.Event, at time.Duration) (missing []string, last history.Event) {
	last = cause
	there := map[string]bool{}
	for _, e := range st.Events {
		switch {
		case e.At > at:
		case RemovedFor(e, cause.Step()), e.Kind == history.InstanceJoined:
			there[e.Node] = true
		case e.Kind == history.NodeDeleted && e.At >= cause.At:
			delete(there, e.Node)
		}
	}
	for _, p := range pods {
		ready, ok := p.ReadyAt(at)
		if !ok {
			continue
		}
		delete(there, ready.Node)
		if ready.At > last.At {
			last = ready
		}
	}
	for node := range there {
		missing = append(missing, node)
	}
	slices.Sort(missing)
	return missing, last
}

// PodOn reports whether a pod of that name was on the node at that time.
func PodOn(st *Story, name, node string, at time.Duration) bool {
	return slices.ContainsFunc(st.Pods, func(p Pod) bool { return p.Name() == name && p.On(node, at) })
}

// Controlled counts the pods that a drain for the notice has to replace by its deadline, by their
// controllers.
func Controlled(st *Story, node string, put history.Event) map[string]int {
	pods := map[string]int{}
	for _, p := range st.ToLeave(node, put.At) {
		if owner := p.Controller(); owner != "" && !p.FinishedBy(*put.Until) {
			pods[owner]++
		}
	}
	return pods
}

// Replacements counts the new pods that are Ready on other nodes at that time, and finds the last
// that became so. It subtracts them from what is missing, by controller.
func Replacements(st *Story, node string, put history.Event, at time.Duration, missing map[string]int) (pods int, last history.Event) {
	last = put
	for _, p := range st.Pods {
		owner := p.Controller()
		if p.Events[0].At < put.At || missing[owner] == 0 {
			continue
		}
		ready, ok := p.ReadyAt(at)
		if !ok || ready.Node == node {
			continue
		}
		pods++
		missing[owner]--
		if ready.At > last.At {
			last = ready
		}
	}
	maps.DeleteFunc(missing, func(_ string, n int) bool { return n == 0 })
	return pods, last
}

// NotTerminating are the pods to leave at that time that have not begun to terminate.
func NotTerminating(st *Story, node string, at time.Duration) []Pod {
	return slices.DeleteFunc(st.ToLeave(node, at), func(p Pod) bool {
		terminating, ok := p.Terminating()
		return ok && terminating.At <= at
	})
}

// WaitingFor counts the pods of a budget's group that were still on the node when the budget changed,
// and finds the first event after it by which one begins to terminate.
func WaitingFor(st *Story, node string, change history.Event) (waiting int, next history.Event) {
	for _, p := range st.ToLeave(node, change.At) {
		terminating, ok := p.Terminating()
		if _, finished := p.Finished(); !p.In(change.Group()) || finished || ok && terminating.At < change.At {
			continue
		}
		waiting++
		if ok && (next.Kind == "" || terminating.At < next.At) {
			next = terminating
		}
	}
	return waiting, next
}

// NotLeft are the pods to leave at a time that had not left at a later one.
func NotLeft(st *Story, node string, at, later time.Duration) []Pod {
	return slices.DeleteFunc(st.ToLeave(node, at), func(p Pod) bool {
		left, ok := p.Left()
		return ok && left.At <= later
	})
}
