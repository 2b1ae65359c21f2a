package main

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/handler"
)

// A deviation that names no scenario would stand next to no failure.
func TestDescriptionsDeviateFromClausesThatExist(t *testing.T) {
	all := catalogue(t)
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	for _, name := range handler.Names() {
		d, err := handler.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CheckScenarios(names); err != nil {
			t.Error(err)
		}
	}
}
