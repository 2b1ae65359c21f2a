package recommend

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// answer is what is known of a question. Unknown is neither yes nor no.
type answer int

// The answers; and takes the least of several, or the greatest.
const (
	no answer = iota
	notKnown
	yes
)

// wellKnownLabels begin the keys of labels that Karpenter sets itself, whatever a NodePool requires.
var wellKnownLabels = []string{
	"kubernetes.io/", "beta.kubernetes.io/", "topology.", "failure-domain.", "karpenter.sh/", "karpenter.k8s.aws/",
	"node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build",
}

// runs reports whether a DaemonSet runs on nodes of the pool, by its nodeSelector, its required node
// affinity and its tolerations.
func (p Pool) runs(pod corev1.PodSpec) answer {
	for i := range p.Taints {
		taint := &p.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) }) {
			return no
		}
	}
	selected := yes
	for key, value := range pod.NodeSelector {
		selected = min(selected, p.has(corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}))
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return selected
	}
	one := no
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		all := yes
		for _, r := range term.MatchExpressions {
			all = min(all, p.has(r))
		}
		if len(term.MatchFields) > 0 { // the names of nodes
			all = min(all, notKnown)
		}
		one = max(one, all)
	}
	return min(selected, one)
}

// has reports whether nodes of the pool fulfil a requirement.
func (p Pool) has(r corev1.NodeSelectorRequirement) answer {
	decided := func(fulfilled bool) answer {
		if fulfilled {
			return yes
		}
		return no
	}
	if r.Key == poolLabel {
		return decided(fulfils(p.Name, r))
	}
	declared, is := false, notKnown
	for _, own := range p.Requirements {
		if own.Key != r.Key {
			continue
		}
		declared = true
		switch {
		case contradict(own, r):
			return no
		case own.Operator == corev1.NodeSelectorOpIn: // some nodes have such a value
			is = yes
		}
	}
	switch {
	case declared:
		return is
	case r.Key == corev1.LabelOSStable:
		return decided(fulfils("linux", r)) // unless a pool requires another
	case slices.ContainsFunc(wellKnownLabels, func(prefix string) bool { return strings.HasPrefix(r.Key, prefix) }):
		return notKnown
	}
	return decided(r.Operator == corev1.NodeSelectorOpNotIn || r.Operator == corev1.NodeSelectorOpDoesNotExist)
}

func tolerates(t corev1.Toleration, taint *corev1.Taint) bool {
	exists := t.Operator == corev1.TolerationOpExists
	return (t.Key == taint.Key || t.Key == "" && exists) && (t.Effect == "" || t.Effect == taint.Effect) && (exists || t.Value == taint.Value)
}
