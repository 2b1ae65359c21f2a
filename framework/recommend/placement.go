package recommend

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/logic"
)

// wellKnownLabels begin the keys of labels that Karpenter sets itself, whatever a NodePool requires.
var wellKnownLabels = []string{
	"kubernetes.io/", "beta.kubernetes.io/", "topology.", "failure-domain.", "karpenter.sh/", "karpenter.k8s.aws/",
	"node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build",
}

// runs reports whether a DaemonSet runs on nodes of the pool, by its nodeSelector, its required node
// affinity and its tolerations.
func (p Pool) runs(pod corev1.PodSpec) logic.Truth {
	for i := range p.Taints {
		taint := &p.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) }) {
			return logic.No
		}
	}
	selected := logic.Yes
	for key, value := range pod.NodeSelector {
		selected = min(selected, p.has(corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}))
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return selected
	}
	one := logic.No
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		all := logic.Yes
		for _, r := range term.MatchExpressions {
			all = min(all, p.has(r))
		}
		if len(term.MatchFields) > 0 { // the names of nodes
			all = min(all, logic.Maybe)
		}
		one = max(one, all)
	}
	return min(selected, one)
}

// has reports whether nodes of the pool fulfil a requirement.
func (p Pool) has(r corev1.NodeSelectorRequirement) logic.Truth {
	if r.Key == poolLabel {
		return logic.Is(fulfils(p.Name, r))
	}
	declared, is := false, logic.Maybe
	for _, own := range p.Requirements {
		if own.Key != r.Key {
			continue
		}
		declared = true
		switch {
		case contradict(own, r):
			return logic.No
		case own.Operator == corev1.NodeSelectorOpIn: // some nodes have such a value
			is = logic.Yes
		}
	}
	switch {
	case declared:
		return is
	case r.Key == corev1.LabelOSStable:
		return logic.Is(fulfils("linux", r)) // unless a pool requires another
	case slices.ContainsFunc(wellKnownLabels, func(prefix string) bool { return strings.HasPrefix(r.Key, prefix) }):
		return logic.Maybe
	}
	return logic.Is(r.Operator == corev1.NodeSelectorOpNotIn || r.Operator == corev1.NodeSelectorOpDoesNotExist)
}

func tolerates(t corev1.Toleration, taint *corev1.Taint) bool {
	exists := t.Operator == corev1.TolerationOpExists
	return (t.Key == taint.Key || t.Key == "" && exists) && (t.Effect == "" || t.Effect == taint.Effect) && (exists || t.Value == taint.Value)
}
