package recommend

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Pool is a NodePool of Karpenter.
type Pool struct {
	Name   string
	Weight int32
	// Consolidates reports whether Karpenter may remove nodes that are not empty, to save
	// money.
	Consolidates bool
	// Requirements are those of its nodes; a label of its template is one as well.
	Requirements []corev1.NodeSelectorRequirement
	Taints       []corev1.Taint
	// ClassGroup is the API group of its node class, which depends on the cloud; empty if it names none.
	ClassGroup string
}

// poolObject is the part of a NodePool that the rules are about. v1 and v1beta1 have it in
// common.
type poolObject struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Weight   int32 `json:"weight"`
		Template struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec struct {
				Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
				Taints       []corev1.Taint                   `json:"taints"`
				NodeClassRef struct {
					Group      string `json:"group"`
					APIVersion string `json:"apiVersion"` // before v1
				} `json:"nodeClassRef"`
			} `json:"spec"`
		} `json:"template"`
		Disruption struct {
			ConsolidationPolicy string `json:"consolidationPolicy"`
			ConsolidateAfter    string `json:"consolidateAfter"`
			Budgets             []struct {
				Nodes    string   `json:"nodes"`
				Reasons  []string `json:"reasons"`
				Schedule string   `json:"schedule"`
			} `json:"budgets"`
		} `json:"disruption"`
	} `json:"spec"`
}

func (o poolObject) pool() Pool {
	p := Pool{Name: o.Metadata.Name, Weight: o.Spec.Weight, Requirements: o.Spec.Template.Spec.Requirements, Taints: o.Spec.Template.Spec.Taints}
	ref := o.Spec.Template.Spec.NodeClassRef
	former, _, _ := strings.Cut(ref.APIVersion, "/")
	p.ClassGroup = cmp.Or(ref.Group, former)
	for key, value := range o.Spec.Template.Metadata.Labels {
		p.Requirements = append(p.Requirements, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	disruption := o.Spec.Disruption
	p.Consolidates = disruption.ConsolidationPolicy != "WhenEmpty" && disruption.ConsolidateAfter != "Never"
	for _, b := range disruption.Budgets {
		underutilized := len(b.Reasons) == 0 || slices.Contains(b.Reasons, "Underutilized")
		if underutilized && b.Schedule == "" && (b.Nodes == "0" || b.Nodes == "0%") {
			p.Consolidates = false
		}
	}
	return p
}

// lintOverlap checks whether a pod may match several NodePools.
func (k Karpenter) lintOverlap() []Finding {
	var pairs []string
	for i, a := range k.Pools {
		for _, b := range k.Pools[i+1:] {
			if a.overlaps(b) {
				pairs = append(pairs, a.Name+" and "+b.Name)
			}
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	return []Finding{breaks("nodepools-overlap", "NodePools of the same weight that one pod may match: %s", strings.Join(pairs, ", "))}
}

// overlaps reports whether nothing excludes that a pod matches both pools with the same
// preference: neither their weights nor their taints differ, and no two of their requirements
// contradict each other.
func (p Pool) overlaps(other Pool) bool {
	if p.Weight != other.Weight || !sets.New(p.Taints...).Equal(sets.New(other.Taints...)) {
		return false
	}
	for _, a := range p.Requirements {
		for _, b := range other.Requirements {
			if a.Key == b.Key && contradict(a, b) {
				return false
			}
		}
	}
	return true
}

// contradict reports whether no value of the label fulfils both requirements.
func contradict(a, b corev1.NodeSelectorRequirement) bool {
	values := a.Values
	switch {
	case a.Operator != corev1.NodeSelectorOpIn && b.Operator == corev1.NodeSelectorOpIn:
		return contradict(b, a)
	case a.Operator == corev1.NodeSelectorOpIn:
		return !slices.ContainsFunc(values, func(v string) bool { return fulfils(v, b) })
	case a.Operator == corev1.NodeSelectorOpDoesNotExist:
		return b.Operator != corev1.NodeSelectorOpDoesNotExist && b.Operator != corev1.NodeSelectorOpNotIn
	case b.Operator == corev1.NodeSelectorOpDoesNotExist:
		return contradict(b, a)
	case a.Operator == corev1.NodeSelectorOpGt && b.Operator == corev1.NodeSelectorOpLt:
		return bound(b)-bound(a) < 2
	case a.Operator == corev1.NodeSelectorOpLt && b.Operator == corev1.NodeSelectorOpGt:
		return contradict(b, a)
	}
	return false
}

// fulfils reports whether a label of that value fulfils the requirement.
func fulfils(value string, r corev1.NodeSelectorRequirement) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpDoesNotExist:
		return false
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		n, err := strconv.Atoi(value)
		return err == nil && (r.Operator == corev1.NodeSelectorOpGt && n > bound(r) || r.Operator == corev1.NodeSelectorOpLt && n < bound(r))
	}
	return true
}

// bound is the number of a requirement with Gt or Lt; 0 if it has none, which the API server
// refuses.
func bound(r corev1.NodeSelectorRequirement) int {
	n, _ := strconv.Atoi(strings.Join(r.Values, ""))
	return n
}
