package main

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

func at(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// window has margins of 1 ms.
func window(from, to int) history.Window {
	return history.Window{From: at(from), To: at(to), FromMargin: at(1), ToMargin: at(1), Lost: 1}
}

func TestCompare(t *testing.T) {
	truth := []played{{outage: outage{silent, at(1000), at(1100)}}}
	stalled := window(1000, 1140)
	stalled.ToMargin = at(45)
	vague := window(1000, 1360)
	vague.ToMargin = at(265)
	for name, c := range map[string]struct {
		windows []history.Window
		doubts  []history.Doubt
		want    tally
	}{
		"both edges right":              {windows: []history.Window{window(1001, 1100)}, want: tally{outages: 1, exact: 1, worst: at(1)}},
		"off by the bound":              {windows: []history.Window{window(1003, 1103)}, want: tally{outages: 1, exact: 1, worst: at(3)}},
		"off by more":                   {windows: []history.Window{window(1000, 1140)}, want: tally{outages: 1, wrong: 1}},
		"off by more, as it reports":    {windows: []history.Window{stalled}, want: tally{outages: 1, wide: 1}},
		"off by more, too vaguely":      {windows: []history.Window{vague}, want: tally{outages: 1, wrong: 1}},
		"too vaguely, in doubt":         {windows: []history.Window{vague}, doubts: []history.Doubt{{From: at(1095), To: at(1360)}}, want: tally{outages: 1, unknown: 1}},
		"off by more, in doubt":         {windows: []history.Window{window(1000, 1140)}, doubts: []history.Doubt{{From: at(1090), To: at(1140)}}, want: tally{outages: 1, unknown: 1}},
		"none":                          {want: tally{outages: 1, missed: 1}},
		"none, in doubt":                {doubts: []history.Doubt{{From: at(990), To: at(1110)}}, want: tally{outages: 1, unknown: 1}},
		"none, the doubt is another's":  {doubts: []history.Doubt{{From: at(500), To: at(600)}}, want: tally{outages: 1, missed: 1}},
		"another window where none was": {windows: []history.Window{window(1000, 1100), window(3000, 3100)}, want: tally{outages: 1, exact: 1, invented: 1}},
		"one in two":                    {windows: []history.Window{window(1000, 1040), window(1080, 1100)}, want: tally{outages: 1, wrong: 1, invented: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := compare(truth, c.windows, c.doubts, 1000)
			got.details = nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// The server may lose what arrived just before it closed its socket, or open it later
// than planned.
func TestAnEdgeIsJudgedByWhatTheServerKnows(t *testing.T) {
	for name, c := range map[string]struct {
		before, after time.Duration
		window        history.Window
		want          tally
	}{
		"early by no more than that": {before: at(1), window: window(996, 1100), want: tally{outages: 1, exact: 1, worst: at(3)}},
		"early by more":              {before: at(1), window: window(994, 1100), want: tally{outages: 1, wrong: 1}},
		"late by no more than that":  {after: at(1), window: window(1000, 1104), want: tally{outages: 1, exact: 1, worst: at(3)}},
		"late by more":               {after: at(1), window: window(1000, 1106), want: tally{outages: 1, wrong: 1}},
		"it hardly knows":            {before: at(6), window: window(1000, 1100), want: tally{outages: 1, unknown: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			truth := []played{{outage{refuses, at(1000), at(1100)}, c.before, c.after}}
			got := compare(truth, []history.Window{c.window}, nil, 1000)
			got.details = nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestAnOutageThatStaysBlurredFails(t *testing.T) {
	for name, c := range map[string]struct {
		tally
		ok bool
	}{
		"all within the bound":             {tally{outages: 60, exact: 60}, true},
		"blurred, and sharp when repeated": {tally{outages: 60, exact: 60, again: 2, aside: 3}, true},
		"one stated wider":                 {tally{outages: 60, exact: 59, wide: 1}, false},
		"one unknown":                      {tally{outages: 60, exact: 59, unknown: 1}, false},
	} {
		if err := c.sharp(5000); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASessionSetAsideKeepsWhatItGotWrong(t *testing.T) {
	var sum tally
	sum.setAside(tally{outages: 3, exact: 1, unknown: 1, wrong: 1, details: []string{"wrong"}})
	sum.setAside(tally{outages: 3, wide: 2, unknown: 1, missed: 1, invented: 2})
	sum.add(tally{outages: 3, exact: 3})
	want := tally{outages: 3, exact: 3, again: 2, aside: 4, wrong: 1, missed: 1, invented: 2, details: []string{"wrong"}}
	if !reflect.DeepEqual(sum, want) {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}

func TestSessionsKeepTheirBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	long := false
	for n := range 500 {
		plan, length := session(n, random, []kind{silent, refuses, fails})
		end := time.Duration(0)
		for _, o := range plan {
			took := o.to - o.from
			if took < shortest || took > longest || o.from-end < quietLeast {
				t.Errorf("session %d: %+v after %v", n, o, end)
			}
			end, long = o.to, long || took > 5*time.Second
		}
		if len(plan) != outages || length != end+quietLeast {
			t.Errorf("session %d lasts %v: %+v", n, length, plan)
		}
	}
	if !long {
		t.Error("no outage is long")
	}
}
