package handler

import (
	"slices"
	"strings"
	"testing"
)

// The handlers of spotdrill's own that have nothing in the cluster but roles can be installed once in each lane.
func TestWhichHandlersCanBeInstalledOnceInEachLane(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"builtin": "", "nth": "", "none": "",
		"builtin-imds": "it runs on each node", "nth-imds": "it runs on each node", "karpenter": "it has objects for the cluster's workers",
	} {
		d, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.OncePerCluster(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// In a lane, all that a handler has is in a namespace of the lane's own, or has a name of the lane's own, and each binding
// refers to the lane's role.
func TestNothingOfALaneIsThatOfAnother(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"builtin", "nth"} {
		d, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		var all [][]string
		for _, s := range []Settings{{}, {Lane: "lane1", Account: "000000000001"}, {Lane: "lane2", Account: "000000000002"}} {
			objects, err := Installation{Description: d, Settings: s}.objects()
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, obj := range objects {
				names = append(names, referenceTo(obj).String())
				ref, _ := obj.Object["roleRef"].(map[string]any)
				role, _ := ref["name"].(string)
				if s.Lane != "" && obj.GetNamespace() != s.namespace() && ref != nil && !strings.HasSuffix(role, "-"+s.Lane) {
					t.Errorf("%s: %s refers to the role %q", name, referenceTo(obj), role)
				}
			}
			all = append(all, names)
		}
		for i, names := range all {
			for _, others := range all[i+1:] {
				for _, of := range names {
					if slices.Contains(others, of) {
						t.Errorf("%s: two lanes have %s", name, of)
					}
				}
			}
		}
	}
}
