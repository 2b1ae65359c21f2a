package reports

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file in testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", file, got)
	}
}

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sampleReport has an entry of every outcome.
func sampleReport() *Report {
	folder := Folder{
		Path: filepath.FromSlash("reports/out/20260102-150405"), Run: "20260102-150405",
		started: time.Date(2026, 1, 2, 15, 4, 5, 678, time.UTC),
	}
	r := New(folder, Handler{Name: "builtin", Version: "0.1.0"}, scenarios.Fast, map[string]string{"kubernetes": "v1.37.0", "engine": "podman 5.6"})
	r.Catalogue = "sha256:of-the-sample"
	r.Timings.Setup = Seconds(sec(61.2))
	for _, e := range []Entry{passed(), failed(), unknown(), skipped()} {
		r.Timings.Took(e.Phases)
		r.Add(e)
	}
	r.Timings.Ended(sec(171.0004))
	return r
}

func passed() Entry {
	e := NewEntry(verdict.Result{
		Scenario: "coredns-drained-lameduck-0s", Title: "Without lameduck a drained CoreDNS pod costs answers", Profile: "DNS", Attempt: 2,
		CoreDNS: coredns.Settings{
			Placement: coredns.OnSpot, Replicas: 2, GracePeriod: strict.Duration(sec(30)),
			Readiness: coredns.Readiness{Period: strict.Duration(sec(10)), FailureThreshold: 3},
		},
		Outcome: verdict.Pass,
		Verdicts: []verdict.Verdict{{
			ID: "dnsWindow", Subject: "fresh", Check: "dns window (fresh)", Outcome: verdict.Pass, Want: "the longest window of lost queries at least 200ms and at most 10s long",
			Got: "fresh: 1.300s from +9.000s (650 of 1300 lost)", Evidence: []int{4}, Numbers: map[string]float64{"lost_fresh": 650, "window_fresh_max_ms": 1300.25},
		}},
		Losses: []loss.Loss{
			{Cause: loss.OldEntry, Fresh: 640, Fixed: 12, Backend: "10.244.1.5", Pod: "kube-system/coredns-x", From: strict.Duration(sec(9)), To: strict.Duration(sec(10.299)), Lag: strict.Duration(sec(1.299)), RulesLeft: strict.Duration(sec(9.031))},
			{Cause: loss.Unexplained, Fresh: 10, From: strict.Duration(sec(9.2)), To: strict.Duration(sec(9.3))},
		},
		DNS: &loss.Measurement{
			Fresh:   loss.Stream{Asked: 45000, Lost: 650, Windows: []history.Window{{From: sec(9), To: sec(10.3), Lost: 650, Asked: 1300}}},
			Fixed:   loss.Stream{Asked: 22000, Lost: 12, Windows: []history.Window{{From: sec(9), To: sec(9.5), Lost: 12, Asked: 250, Open: true}}},
			Control: loss.Stream{Asked: 9000},
		},
	})
	e.Phases = PhaseTimes{Arranging: Seconds(sec(6.1234)), Baseline: Seconds(sec(4)), Stepping: Seconds(sec(60)), Settling: Seconds(sec(20)), Restoring: Seconds(sec(5)), Judging: Seconds(sec(1))}
	e.Measured, e.Expected, e.History = Seconds(sec(96.1234)), Seconds(sec(25)), "coredns-drained-lameduck-0s/attempt-2"
	return e
}

func failed() Entry {
	until := sec(24)
	e := NewEntry(verdict.Result{
		Story: story.Read(scenarios.Scenario{}, history.History{
			Meta: history.Meta{Handler: history.Handler{Unschedulable: true}},
			Events: []history.Event{
				history.NewNoticePut("reclaim", "", "spotdrill-worker3", func(e *history.Event) { e.Seq = 1 }, history.At(sec(4)), history.Notice("n-1"), history.Until(until)),
				history.NewNodeCordoned("spotdrill-worker3", func(e *history.Event) { e.Seq = 2 }, history.At(sec(12.345))),
				history.NewSQSCall("", "ReceiveMessage", "", func(e *history.Event) { e.Seq = 3 }, history.At(sec(13)), history.Status(503)),
				history.NewRestored(func(e *history.Event) { e.Seq = 4 }, history.At(sec(14))),
			},
		}),
		Scenario: "spot-notice-drains-node", Title: "A spot notice drains its node before the instance goes", Profile: "SPOT", Attempt: 1,
		Outcome: verdict.Fail,
		Verdicts: []verdict.Verdict{
			{ID: "marked", Subject: "victim", Check: "marked victim", Outcome: verdict.Fail, Want: "cordoned within 5s of notice \"reclaim\"", Got: "spotdrill-worker3 marked after 8.345s", Evidence: []int{1, 2}, Numbers: map[string]float64{"marked_seconds": 8.345}},
			{ID: "deleted", Subject: "reclaim", Check: "deleted reclaim", Outcome: verdict.Pass, Want: "deleted", Got: "1 deleted"},
			{ID: "untouched", Subject: "bystander", Check: "untouched bystander", Outcome: verdict.Unknown, Want: "neither <cordoned> nor evicted", Got: "a note with a \x00 in it & a \"quote\"", Evidence: []int{3}},
		},
	})
	e.Measured, e.Expected, e.History = Seconds(sec(47.6)), Seconds(sec(30)), "spot-notice-drains-node/attempt-1"
	return e
}

func unknown() Entry {
	e := NewEntry(verdict.NotRun(scenarios.Scenario{Name: "state-stopping-drains-node", Title: "The state change to stopping drains the node", Profile: "STATE-CHANGE"}, "the cluster disappeared"))
	e.Measured = Seconds(sec(3))
	return e
}

func skipped() Entry {
	return NewEntry(verdict.Skip(scenarios.Scenario{Name: "rebalance-recommendation-is-only-told", Title: "A rebalance recommendation becomes an event", Profile: "REBALANCE", Feature: "rebalance-event"}, "handler builtin does not claim rebalance-event"))
}
