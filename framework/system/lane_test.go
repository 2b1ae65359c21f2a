package system

import (
	"strings"
	"testing"
)

func TestWhatIsThatOfAnotherLane(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ anywhere, inLane2 bool }{
		"spotdrill-worker":           {false, false},
		"kube-system":                {false, false},
		"spotdrill":                  {false, false},
		"spotdrill-handler":          {false, false},
		"spotdrill-workload-2":       {false, false},
		"spotdrill-virtual2":         {false, false}, // of a fleet
		"spotdrill-lane2":            {true, false},
		"spotdrill-lane2-handler":    {true, false},
		"spotdrill-lane2-workload-1": {true, false},
		"spotdrill-virtual-lane2-7":  {true, false},
		"spotdrill-lane1":            {true, true},
		"spotdrill-lane12-handler":   {true, true},
		"spotdrill-virtual-lane21-1": {true, true},
	} {
		base, lane := newSystem(Options{Cluster: "spotdrill"}), newSystem(Options{Cluster: "spotdrill"})
		lane.lane = "lane2"
		if got := base.Foreign(name); got != c.anywhere {
			t.Errorf("%s: foreign to the cluster's own drills: %t", name, got)
		}
		if got := lane.Foreign(name); got != c.inLane2 {
			t.Errorf("%s: foreign to lane 2: %t", name, got)
		}
	}
}

func TestLanesFitIntoTheMemory(t *testing.T) {
	for name, c := range map[string]struct {
		lanes     int
		available uint64
		want      string
	}{
		"enough":            {8, 8 * laneMemory, ""},
		"too little":        {8, 3*laneMemory + 1, "8 lanes take 1.5 GiB of memory and 0.6 GiB is available: choose --lanes 3"},
		"none":              {8, 1, "choose --lanes 1"},
		"not known":         {8, 0, ""},
		"one after another": {1, 1, ""},
	} {
		err := lanesFit(c.lanes, c.available)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
