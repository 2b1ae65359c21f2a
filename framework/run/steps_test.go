package run

import (
	"testing"
	"time"

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
