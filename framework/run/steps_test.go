package run

import (
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// A handler that knows events by their eventArn must see that of the first notice again.
func TestAnUpdateHasTheEventArnOfWhatItUpdates(t *testing.T) {
	began := time.Unix(1700000000, 0)
	first := healthOf(scenarios.Notice{Name: "maintenance"}, began)
	update := healthOf(scenarios.Notice{Name: "update", Health: &scenarios.Health{Updates: "maintenance"}}, began)
	other := healthOf(scenarios.Notice{Name: "update", Health: &scenarios.Health{Foreign: 2}}, began)
	again := healthOf(scenarios.Notice{Name: "maintenance"}, began.Add(time.Minute))
	if first.Event == "" || first.Event != update.Event || first.Event == other.Event || first.Event == again.Event || other.Foreign != 2 {
		t.Errorf("%+v, %+v, %+v, %+v", first, update, other, again)
	}
}

func TestWhatIsOnRecordAsGone(t *testing.T) {
	node := cluster.Node{Name: "spot-1", Instance: "i-1"}
	for name, c := range map[string]struct {
		event history.Event
		gone  bool
	}{
		"its Node object is deleted":   {history.NewNodeDeleted("spot-1"), true},
		"its instance has ended":       {history.NewInstanceEnded("i-1", ""), true},
		"another node is deleted":      {history.NewNodeDeleted("spot-2"), false},
		"another instance of the node": {history.NewInstanceEnded("i-0", "spot-1"), false},
		"it is tainted":                {history.NewNodeTainted("spot-1", "", ""), false},
	} {
		if got := removed([]history.Event{c.event}, node); got != c.gone {
			t.Errorf("%s: %v, want %v", name, got, c.gone)
		}
	}
}
