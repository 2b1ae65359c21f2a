// Package labels names the Ginkgo labels of specs, which --ginkgo.label-filter selects
// by, such as "profile:PDB && !set:fast".
package labels

import (
	"fmt"
	"slices"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/spotdrill/spotdrill/scenarios"
)

// Of are the labels of a scenario's spec: its name, profile, feature and sets, and
// whether its profile is one of the core or an extended one.
func Of(s scenarios.Scenario) []string {
	labels := []string{"scenario:" + s.Name, "profile:" + s.Profile}
	if s.Feature != "" {
		labels = append(labels, "feature:"+s.Feature)
	}
	if s.Setting != "" {
		labels = append(labels, "setting:"+s.Setting)
	}
	for _, set := range s.Sets {
		labels = append(labels, "set:"+string(set))
	}
	if s.Core() {
		return append(labels, "core")
	}
	return append(labels, "extended")
}

// OfAll are the labels of a spec about all of the scenarios.
func OfAll(all []scenarios.Scenario) []string {
	var labels []string
	for _, s := range all {
		labels = append(labels, Of(s)...)
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// Selected are the items that --ginkgo.label-filter selects by their labels. What it does
// not select is not part of the run at all: it is neither played at the same time as another scenario
// nor missing in the report. It is an error if nothing is left.
func Selected[T any](items []T, labels func(T) []string) ([]T, error) {
	return filtered(ginkgo.GinkgoLabelFilter(), items, labels)
}

func filtered[T any](text string, items []T, labels func(T) []string) ([]T, error) {
	selects, err := types.ParseLabelFilter(text)
	if err != nil {
		return nil, fmt.Errorf("--ginkgo.label-filter: %w", err)
	}
	var selected []T
	for _, item := range items {
		if selects(labels(item)) {
			selected = append(selected, item)
		}
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("--ginkgo.label-filter=%q selects nothing", text)
	}
	return selected, nil
}
