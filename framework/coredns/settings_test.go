package coredns

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

func TestSettingsInWordsAndAsJSON(t *testing.T) {
	known := Settings{
		Lameduck: strict.Duration(5 * time.Second), Readiness: Readiness{Period: strict.Duration(time.Second), FailureThreshold: 3},
		GracePeriod: strict.Duration(90 * time.Second), Replicas: 2,
	}
	placed := known
	placed.Placement = Spread
	delayed := known
	delayed.Delay = strict.Duration(100 * time.Millisecond)
	kept := known
	kept.MinAvailable, kept.DoNotDisrupt = 1, true
	for _, c := range []struct {
		settings Settings
		words    string
		json     string
	}{
		{
			known, "lameduck 5s, readiness 1s x 3, grace period 1m30s, replicas 2",
			`{"lameduck":"5s","readinessPeriod":"1s","failureThreshold":3,"gracePeriod":"1m30s","replicas":2}`,
		},
		{
			placed, "lameduck 5s, readiness 1s x 3, grace period 1m30s, replicas 2, placement spread",
			`{"lameduck":"5s","readinessPeriod":"1s","failureThreshold":3,"gracePeriod":"1m30s","replicas":2,"placement":"spread"}`,
		},
		{
			delayed, "lameduck 5s, readiness 1s x 3, grace period 1m30s, replicas 2, answers after 100ms",
			`{"lameduck":"5s","readinessPeriod":"1s","failureThreshold":3,"gracePeriod":"1m30s","replicas":2,"delay":"100ms"}`,
		},
		{
			kept, "lameduck 5s, readiness 1s x 3, grace period 1m30s, replicas 2, minAvailable 1, do-not-disrupt",
			`{"lameduck":"5s","readinessPeriod":"1s","failureThreshold":3,"gracePeriod":"1m30s","replicas":2,"minAvailable":1,"doNotDisrupt":true}`,
		},
	} {
		if got := c.settings.String(); got != c.words {
			t.Errorf("%q, want %q", got, c.words)
		}
		if got, err := json.Marshal(c.settings); err != nil || string(got) != c.json {
			t.Errorf("%s, %v, want %s", got, err, c.json)
		}
	}
	if got := known.Readiness.Unready(); got != 3*time.Second {
		t.Errorf("Ready for %s more", got)
	}
}
