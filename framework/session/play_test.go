package session

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// What decides a check is in memory: the record's files are gone before anything is decided.
func TestRecordingContinuesUntilEveryCheckIsDecided(t *testing.T) {
	const within = 400 * time.Millisecond
	deleted := verdict.Require(verdict.Deleted{Of: "reclaim", Within: strict.Duration(within)})
	slow := verdict.Require(verdict.Deleted{Of: "reclaim", Within: strict.Duration(time.Minute)})
	replaced := verdict.Require(verdict.Replaced{NodeNotice: verdict.NodeNotice{Node: "victim", Notice: "reclaim"}})
	lost := verdict.Require(verdict.Losses{Of: scenarios.DNS, Mode: "all", Max: new(0)})
	for name, c := range map[string]struct {
		checks []scenarios.Check
		at     time.Duration // when the message is deleted, after the notice; 0: never
		want   time.Duration // how long is recorded, after the notice
	}{
		"decided already":                                 {checks: []scenarios.Check{slow}, at: 1, want: 0},
		"decided while it is recorded":                    {checks: []scenarios.Check{slow}, at: within, want: decidedPoll},
		"until its time to act is over":                   {checks: []scenarios.Check{deleted}, want: within},
		"until the deadline of the notice":                {checks: []scenarios.Check{deleted, replaced}, want: 2 * within},
		"no check that the end of a recording can decide": {checks: []scenarios.Check{verdict.Require(verdict.QueueEmpty{})}, want: 0},
		"what needs the queries is not asked for":         {checks: []scenarios.Check{lost}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rec, err := history.Create(dir, history.NewClock(), history.Meta{Handler: history.Handler{Name: "mine"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			put := rec.Clock().Now()
			deadline := put + 2*within
			rec.Record(history.Arrange.Begins())
			rec.Record(history.Steps.Begins())
			rec.Record(history.NewNoticePut("reclaim", history.SpotInterruption, "", history.At(put), history.Until(deadline), history.Notice("n-1")))
			rec.Record(history.Settle.Begins())
			remove := func() {
				rec.Record(history.NewSQSReceived("queue", "m-1", "n-1"))
				rec.Record(history.NewSQSDeleted("queue", "m-1", "n-1"))
			}
			switch {
			case c.at == 1:
				remove()
			case c.at > 0:
				time.AfterFunc(c.at, remove)
			}
			sleep := func(_ context.Context, until time.Duration) error {
				time.Sleep(until - rec.Clock().Now())
				return nil
			}
			if err := untilDecided(t.Context(), scenarios.Scenario{Checks: c.checks}, rec, 0, sleep); err != nil {
				t.Fatal(err)
			}
			if took := rec.Clock().Now() - put; took < c.want || c.want == 0 && took >= decidedPoll {
				t.Errorf("recorded for %s after the notice, want %s", took, c.want)
			}
		})
	}
}

// Queries can be lost until a CoreDNS pod in lameduck has ended. Only what can end is waited for, and only so long.
func TestRecordingContinuesUntilWhatIsMeasuredHasSettled(t *testing.T) {
	terminating := history.NewPodTerminating("kube-system/coredns-a", "a", history.Node("w-1"))
	exited := history.NewPodExited("kube-system/coredns-a", "a", history.Node("w-1"))
	notReady := history.NewPodNotReady("kube-system/coredns-a", "a", history.Node("w-1"))
	ready := history.NewPodReady("kube-system/coredns-a", "a", history.Node("w-1"))
	appEnds := history.NewPodTerminating("app/web", "web", history.Node("w-2"))
	appGone := history.NewPodDeleted("app/web", "web", history.Node("w-2"))
	dns, application := &scenarios.Probe{}, &scenarios.Probe{Application: &scenarios.ApplicationProbe{}}
	for name, c := range map[string]struct {
		probe  *scenarios.Probe
		events []history.Event
		later  *history.Event // while it is waited for
		sleeps int            // how many times at most: on a busy machine each takes longer
	}{
		"it is in lameduck, and ends":        {dns, []history.Event{terminating}, &exited, 1},
		"it has exited":                      {dns, []history.Event{terminating, exited}, nil, 0},
		"it does not end":                    {dns, []history.Event{terminating}, nil, 3},
		"it is not Ready, and becomes Ready": {dns, []history.Event{notReady}, &ready, 1},
		"its node was reclaimed":             {dns, []history.Event{terminating, history.NewReclaimed("w-1")}, nil, 0},
		"it stays":                           {dns, nil, nil, 0},
		"nothing is queried in the drill":    {nil, []history.Event{terminating}, nil, 0},
		"a pod of the application ends":      {application, []history.Event{appEnds}, &appGone, 1},
		"which is not measured":              {dns, []history.Event{appEnds}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range slices.Concat([]history.Event{
				history.NewPodCreated("kube-system/coredns-a", "a", "", history.Node("w-1")), history.NewEndpointReady("", "kube-system/coredns-a", "10.244.1.2"), ready,
				history.NewPodCreated("app/web", "web", "app", history.Node("w-2")), history.NewEndpointReady(scenarios.App, "app/web", "10.244.2.2"),
				history.NewPodReady("app/web", "web", history.Node("w-2")), history.Steps.Begins(),
			}, c.events) {
				rec.Record(e)
			}
			sleeps := 0
			err = untilDecided(t.Context(), scenarios.Scenario{Probe: c.probe}, rec, 250*time.Millisecond, func(context.Context, time.Duration) error {
				sleeps++
				if c.later != nil {
					rec.Record(*c.later)
				}
				time.Sleep(100 * time.Millisecond)
				return nil
			})
			if err != nil || sleeps > c.sleeps || sleeps < min(1, c.sleeps) {
				t.Errorf("slept %d times, want at most %d, error %v", sleeps, c.sleeps, err)
			}
		})
	}
}

// What ends the recording early ends the wait.
func TestAnErrorEndsTheWaitForADecision(t *testing.T) {
	rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	rec.Record(history.NewNoticePut("reclaim", history.SpotInterruption, "", history.Notice("n-1")))
	broken := errors.New("the record of the prober broke off")
	checks := []scenarios.Check{verdict.Require(verdict.Deleted{Of: "reclaim", Within: strict.Duration(time.Minute)})}
	got := untilDecided(t.Context(), scenarios.Scenario{Checks: checks}, rec, 0, func(context.Context, time.Duration) error { return broken })
	if !errors.Is(got, broken) {
		t.Errorf("error %v", got)
	}
}
