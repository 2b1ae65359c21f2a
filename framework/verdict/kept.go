package verdict

import (
	"cmp"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// found reports whether the watch saw what was prepared. It does not report the labels and
// annotations that are there at first.
func (j judge) found(prepared history.Event) bool {
	kind := map[history.Preparation]history.Kind{history.PreparedCordon: history.NodeCordoned, history.PreparedTaint: history.NodeTainted}[prepared.Preparation()]
	if kind == "" {
		return true
	}
	_, ok := j.First(func(e history.Event) bool {
		return e.Kind == kind && e.Node == prepared.Node && e.At < j.Begun && e.Setting() == prepared.Setting()
	})
	return ok
}

// before reports whether the label or annotation was on the node before the drill, and is
// not one that Kubernetes changes itself.
func (j judge) before(e history.Event) bool {
	domain, _, _ := strings.Cut(e.Setting().Key, "/")
	if strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
		return false
	}
	group := map[history.Kind]history.Kind{history.NodeUnlabelled: history.NodeLabelled, history.NodeUnannotated: history.NodeAnnotated}
	set := cmp.Or(group[e.Kind], e.Kind)
	first, ok := j.First(func(o history.Event) bool {
		return o.Node == e.Node && o.Setting().Key == e.Setting().Key && o.Kind == set
	})
	return !ok || first.Note != "" || first.At > e.At
}
