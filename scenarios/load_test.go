package scenarios

import (
	"testing"
)

func TestCatalogueLoads(t *testing.T) {
	all, err := Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		t.Log(s.Profile, s.Name, s.Expected(Fast))
	}
}
