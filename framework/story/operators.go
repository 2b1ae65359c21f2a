package story

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

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
