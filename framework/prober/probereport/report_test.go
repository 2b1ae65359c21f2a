package probereport

import (
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

func TestReportWarnsOfPortsThatAreNotFresh(t *testing.T) {
	plan := prober.Plan{Streams: []prober.QueryStream{{Mode: history.Fresh, Rate: 5000}}}
	for reused, want := range map[int]bool{0: false, 7: true} {
		sum := prober.QueryStreamSummary{Figures: prober.Figures{Reused: reused}}
		var b strings.Builder
		if err := (Report{Plan: plan, Summary: prober.Summary{Streams: []prober.QueryStreamSummary{sum}}, Streams: []Findings{{}}}).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "7 queries left from a port that was used less than 30s before"); got != want {
			t.Errorf("with %d reused the report shows:\n%s", reused, b.String())
		}
	}
}

func TestLimits(t *testing.T) {
	window, lost := 50*time.Millisecond, 0
	windows, losses, both := Limits{MaxWindow: &window}, Limits{MaxLost: &lost}, Limits{&window, &lost}
	quiet := Report{Plan: prober.Plan{Streams: []prober.QueryStream{{Rate: 100}}, For: time.Minute}}
	change := func(f func(*Report)) Report {
		r := quiet
		f(&r)
		return r
	}
	losing := change(func(r *Report) { r.Summary.Outcomes = map[history.Outcome]int{history.Timeout: 1} })
	outage := change(func(r *Report) {
		r.Streams = []Findings{{Target: "server", Windows: []history.Window{{From: time.Second, To: 2 * time.Second}}}}
	})
	// The next query would have come 10 ms later.
	open := change(func(r *Report) {
		r.Streams = []Findings{{Windows: []history.Window{{From: time.Second, To: time.Second + 45*time.Millisecond, Open: true}}}}
	})
	behind := change(func(r *Report) {
		r.Summary.Figures = prober.Figures{Asked: 10, Unsent: 1, Behind: "1 of 10 queries were not sent"}
	})
	doubtful := change(func(r *Report) {
		r.Streams = []Findings{{Doubts: []history.Doubt{{From: 1, To: 2, Reason: "echo: timeout"}}}}
	})
	interrupted := change(func(r *Report) { r.Interrupted = true })
	for name, c := range map[string]struct {
		report                 Report
		limits                 Limits
		exceeded, inconclusive string // part of the error; empty for none
	}{
		"nothing lost":                    {quiet, both, "", ""},
		"a lost query":                    {losing, losses, "1 query lost, --max-lost allows 0", ""},
		"a lost query, another limit":     {losing, windows, "", ""},
		"an outage":                       {outage, windows, "server: the window at 1.000s lasted 1s or more, --max-window allows 50ms", ""},
		"an outage, another limit":        {outage, losses, "", ""},
		"an open window":                  {open, windows, "--max-window allows 50ms", ""},
		"a schedule that was not kept":    {behind, losses, "", "1 of 10 queries were not sent; lower --rate"},
		"no limits, schedule not kept":    {behind, Limits{}, "", ""},
		"a machine that stalled":          {doubtful, losses, "", "stalled in 1 interval, 0s in all, the first at 0.000s (echo: timeout)"},
		"no limits, machine that stalled": {doubtful, Limits{}, "", ""},
		"an interrupted probe":            {interrupted, both, "", "interrupted after 0 queries: 1m0s were planned"},
		"an interrupted probe, no limits": {interrupted, Limits{}, "", "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, c.report.Exceeded(c.limits), c.exceeded)
			wantError(t, c.report.Inconclusive(c.limits), c.inconclusive)
		})
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
