package story

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Node returns the cluster node that a name of the scenario stands for. If it is not
// known, why is the reason.
func (st *Story) Node(name string) (node, why string) {
	role, ok := st.First(func(e history.Event) bool { return e.Kind == history.NodeRole && e.Role() == name && e.Node != "" })
	if !ok {
		return "", fmt.Sprintf("the history does not show which node %q is", name)
	}
	if _, ok := st.First(func(e history.Event) bool { return e.Kind == history.NodePresent && e.Node == role.Node }); !ok {
		return "", fmt.Sprintf("%s (%s) was not seen in the cluster", role.Node, name)
	}
	return role.Node, ""
}

// Role returns the scenario's name for a node, or "".
func (st *Story) Role(node string) string {
	for _, e := range st.AllOf(history.NodeRole) {
		if e.Node == node {
			return e.Role()
		}
	}
	return ""
}

// Noticed returns the node behind a name, and the notice that named it.
func (st *Story) Noticed(name, notice string) (node string, put history.Event, why string) {
	if node, why = st.Node(name); why != "" {
		return "", put, why
	}
	put, ok := st.First(func(e history.Event) bool {
		return e.Kind == history.NoticePut && e.Step() == notice && e.Node == node
	})
	if !ok {
		return "", put, fmt.Sprintf("notice %q was never put for %s (%s)", notice, node, name)
	}
	return node, put, ""
}

// Deadlined is Noticed for a notice that must have a deadline, put.Until.
func (st *Story) Deadlined(name, notice string) (node string, put history.Event, why string) {
	node, put, why = st.Noticed(name, notice)
	if why == "" && (put.Until == nil || *put.Until <= put.At) {
		why = "the notice was put without a deadline"
	}
	return node, put, why
}

// Registered is when the Node object that the node had at a time began: when the one before
// it was deleted, 0 if there was none. What was marked on that one is not marked on this one.
func (st *Story) Registered(node string, at time.Duration) (since time.Duration) {
	for _, e := range st.AllOf(history.NodeDeleted) {
		if e.Node == node && e.At <= at {
			since = e.At
		}
	}
	return since
}

// Gone is when the node's instance was taken for good; the largest Duration if it never was: what is
// required by a time can then happen until that time, also if the record ends before. What happens to
// the node later is not the handler's doing.
func (st *Story) Gone(node string) time.Duration {
	if e, ok := st.Reclaimed(node); ok {
		return e.At
	}
	return math.MaxInt64
}

// Stays is until when the drill shows what happens to the node: until its instance was taken or the drill
// ended.
func (st *Story) Stays(node string) time.Duration { return min(st.Gone(node), st.End) }

// Over is when the time of a notice is over: at its deadline, or when the instance of its node was taken
// before. Without a deadline, it is the end of the drill.
func (st *Story) Over(put history.Event) time.Duration {
	if put.Until == nil {
		return st.Stays(put.Node)
	}
	return min(*put.Until, st.Gone(put.Node))
}

// There is until when the node, and what is on it, is to be judged: until its instance or
// its object is gone.
func (st *Story) There(node string) time.Duration {
	until := st.Stays(node)
	if e, ok := st.First(func(e history.Event) bool { return e.Kind == history.NodeDeleted && e.Node == node }); ok {
		until = min(until, e.At)
	}
	return until
}

// Reclaimed returns the event by which the node's instance was taken for good: it was not
// started again.
func (st *Story) Reclaimed(node string) (taken history.Event, ok bool) {
	for _, e := range st.AllOf(history.Reclaimed, history.OperatorActed) {
		switch {
		case e.Node != node:
		case e.Kind == history.Reclaimed && !ok:
			taken, ok = e, true
		case e.Kind == history.OperatorActed && e.Operation() == history.StartAgain:
			taken, ok = history.Event{}, false
		}
	}
	return taken, ok
}

// Causes are what calls for a drain of the node: the notices that name it, the
// messages whose body does, a disruption of the DNS pods on it, a configuration in which
// the handler is to remove it, a deletion of its Node object that it has to finish, and a drain
// by hand.
func (st *Story) Causes(node string) []history.Event {
	naming := map[string]bool{}
	for _, m := range st.Scenario.Messages() {
		for name := range st.Scenario.Nodes {
			if n, why := st.Node(name); why == "" && n == node && m.Names(name) {
				naming[m.Name] = true
			}
		}
	}
	return st.All(func(e history.Event) bool {
		return e.Kind == history.NoticePut && e.Node == node || e.Kind == history.MessagePut && naming[e.Step()] ||
			(e.Kind == history.DNSDisrupted || e.Kind == history.HandlerReconfigured || ToFinish(e) || drainedByHand(e)) && e.Node == node
	})
}

// ToFinish reports whether an operator deleted a Node object, and the handler's finalizer holds
// it until the handler has removed the node: the scenario gave that step a name.
func ToFinish(e history.Event) bool { return e.Kind == history.OperatorActed && e.Step() != "" }

// EndpointAround returns the last change of the CoreDNS endpoint of a node before a time, and the
// first one after it by which the endpoint is not ready; nil if there is none.
func EndpointAround(st *Story, node string, at time.Duration) (before, after *history.Event) {
	pods := map[string]bool{}
	for _, p := range st.Pods {
		if _, ok := p.Arrived(node); ok {
			pods[p.Name()] = true
		}
	}
	for _, e := range st.Events {
		if !strings.HasPrefix(string(e.Kind), "endpoint.") || e.Service() != "" || !pods[e.Pod] {
			continue
		}
		switch {
		case e.At < at:
			before = &e
		case after == nil && e.Kind != history.EndpointReady:
			after = &e
		}
	}
	return before, after
}

// Prepared are the parts of the state that the drill put on the node before it began.
func (st *Story) Prepared(node string) []history.Event {
	return st.All(func(e history.Event) bool { return e.Kind == history.NodePrepared && e.Node == node })
}

// PreparedCordon reports whether the event is the cordon that the drill put on the node
// before it began.
func (st *Story) PreparedCordon(e history.Event) bool {
	return e.Kind == history.NodeCordoned && e.At < st.Begun && slices.ContainsFunc(st.Prepared(e.Node), func(p history.Event) bool {
		return p.Action == string(history.PreparedCordon)
	})
}

// drainedByHand reports whether the event is a drain of a node by an operator.
func drainedByHand(e history.Event) bool {
	return e.Kind == history.OperatorActed && e.Operation() == history.DrainNode
}

// ByOperator reports whether the drill itself made a change of a node, as an operator. A
// Node object that it deletes may go later: finalizers hold it.
func (st *Story) ByOperator(e history.Event) bool {
	made := map[history.Operation][]history.Kind{
		history.UncordonNode: {history.NodeUncordoned},
		history.ReadmitNode:  {history.NodeUncordoned, history.NodeUntainted},
		history.DeleteNode:   {history.NodeDeleted},
		history.DrainNode:    {history.NodeCordoned, history.NodeTainted},
	}
	_, ok := st.First(func(o history.Event) bool {
		return o.Kind == history.OperatorActed && o.Node == e.Node && slices.Contains(made[o.Operation()], e.Kind) && e.At >= o.At && (e.Kind == history.NodeDeleted || e.At <= o.At+InFlight)
	})
	return ok
}

// PreparedFound reports whether the watch saw what was prepared. It does not report the labels and
// annotations that are there at first.
func PreparedFound(st *Story, prepared history.Event) bool {
	kind := map[history.Preparation]history.Kind{history.PreparedCordon: history.NodeCordoned, history.PreparedTaint: history.NodeTainted}[prepared.Preparation()]
	if kind == "" {
		return true
	}
	_, ok := st.First(func(e history.Event) bool {
		return e.Kind == kind && e.Node == prepared.Node && e.At < st.Begun && e.Setting() == prepared.Setting()
	})
	return ok
}

// WasThere reports whether the label or annotation was on the node before the drill, and is
// not one that Kubernetes changes itself.
func WasThere(st *Story, e history.Event) bool {
	domain, _, _ := strings.Cut(e.Setting().Key, "/")
	if strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
		return false
	}
	group := map[history.Kind]history.Kind{history.NodeUnlabelled: history.NodeLabelled, history.NodeUnannotated: history.NodeAnnotated}
	set := cmp.Or(group[e.Kind], e.Kind)
	first, ok := st.First(func(o history.Event) bool {
		return o.Node == e.Node && o.Setting().Key == e.Setting().Key && o.Kind == set
	})
	return !ok || first.Note != "" || first.At > e.At
}
