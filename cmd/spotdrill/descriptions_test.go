package main

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// A deviation that names no clause would stand next to no failure.
func TestDescriptionsDeviateFromClausesThatExist(t *testing.T) {
	all, err := verdict.Scenarios().Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	var clauses []string
	for _, s := range all {
		clauses = append(clauses, s.Name)
	}
	for _, name := range handler.Names() {
		d, err := handler.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.CheckClauses(clauses); err != nil {
			t.Error(err)
		}
	}
}
