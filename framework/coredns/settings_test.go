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
	own := known
	own.PreStop, own.Corefile = strict.Duration(7*time.Second), ".:53 {\n}\n"
	own.Tolerations = []Toleration{{Key: "dedicated", Value: "dns", Effect: "NoSchedule"}, {Operator: Exists}, {Key: "spot", Operator: Exists, Effect: NoExecute, TolerationSeconds: new(int64(60))}}
	openShift := known
	openShift.Port, openShift.TrafficDistribution = 5353, PreferSameNode
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
		{
			own, "lameduck 5s, readiness 1s x 3, grace period 1m30s, replicas 2, preStop 7s, tolerates dedicated=dns:NoSchedule, tolerates op=Exists, tolerates spot:NoExecute op=Exists for 60s, Corefile of its own",
			`{"lameduck":"5s","readinessPeriod":"1s","failureThreshold":3,"gracePeriod":"1m30s","replicas":2,"preStop":"7s","tolerations":["dedicated=dns:NoSchedule","op=Exists","spot:NoExecute op=Exists for 60s"],"corefile":".:53 {\n}\n"}`,
		},
		{
			openShift, `lameduck 5s, readiness 1s x 3, grace period 1m30s, replicas 2, port 5353, trafficDistribution PreferSameNode`,
			`{"lameduck":"5s","readinessPeriod":"1s","failureThreshold":3,"gracePeriod":"1m30s","replicas":2,"service":["port 5353","trafficDistribution PreferSameNode"]}`,
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
