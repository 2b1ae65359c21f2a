// Package probereport turns what a probe recorded into what people read: progress
// while it runs, a report with the outage windows at its end, and every query in a
// file.
package probereport

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// Report is the result of a probe. All times are nanoseconds; those of windows and
// doubts count from the start of the probe.
type Report struct {
	Plan        prober.Plan    `json:"plan"`
	Start       history.Anchor `json:"start"` // what times are relative to
	Summary     prober.Summary `json:"summary"`
	Streams     []Findings     `json:"streams"` // in the order of the plan
	Interrupted bool           `json:"interrupted"`
}

// Findings are the outage windows of one query stream.
type Findings struct {
	Target  string           `json:"target"`
	Windows []history.Window `json:"windows"`
	Doubts  []history.Doubt  `json:"doubts"` // intervals in which the server cannot be judged
}

// length counts a window that was open at the end as if the next query had closed it.
func (r Report) length(w history.Window) time.Duration {
	if w.Open {
		return w.Length() + time.Second/time.Duration(r.Plan.Streams[0].Rate)
	}
	return w.Length()
}

// WriteText writes the report as tables.
func (r Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(tw, name+"\t"+format+"\n", args...) }
	for i, s := range r.Plan.Streams {
		sum := r.Summary.Streams[i]
		row("asked", "%s for %s, %d/s %s", s.Server, questions(s), s.Rate, transport(s))
		row("queries", "%d: %s", sum.Asked, Outcomes(sum.Outcomes))
		for _, l := range []struct {
			name string
			prober.Latency
		}{{"latency", sum.Latency}, {"response", sum.Response}} {
			row(l.name, "p50 %v, p90 %v, p99 %v, p99.9 %v, max %v", short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max))
		}
		row("schedule", "sent late by p99 %v, max %v; %d unsent, %d socket errors, %s dropped by the kernel",
			short(sum.LateP99), short(sum.LateMax), sum.Unsent, sum.SocketErrors, history.Count(sum.Dropped, "answer"))
		if sum.Reused > 0 {
			row("ports", "%s left from a port that was used less than 30s before, which connection tracking may remember: lower --rate to 1800", history.Count(sum.Reused, "query"))
		}
		if sum.Ignored > 0 {
			row("ignored", "%s that came after their query's timeout", history.Count(sum.Ignored, "answer"))
		}
		if sum.Behind != "" {
			row("WARNING", "%s", sum.Behind)
		}
		if n := len(r.Streams[i].Windows); n == 0 {
			row("windows", "none")
		} else {
			row("windows", "%d", n)
		}
		if doubts := r.Streams[i].Doubts; len(doubts) > 0 {
			row("unknown", "%s, %v in all, in which this machine stalled", history.Count(len(doubts), "interval"), short(total(doubts)))
		}
		if err := errors.Join(tw.Flush(), r.Streams[i].writeText(tw)); err != nil {
			return err
		}
	}
	return nil
}

func (f Findings) writeText(tw *tabwriter.Writer) error {
	for i, w := range f.Windows {
		if i == 0 {
			fmt.Fprintln(tw, "  from\tor earlier by\tto\tor earlier by\tlength\tlost\tof\t")
		}
		open := ""
		if w.Open {
			open = "still lost at the end"
		}
		fmt.Fprintf(tw, "  %s\t%v\t%s\t%v\t%s\t%d\t%d\t%s\n", history.Seconds(w.From), short(w.FromMargin),
			history.Seconds(w.To), short(w.ToMargin), history.Seconds(w.Length()), w.Lost, w.Asked, open)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, d := range f.Doubts {
		if i == 0 {
			fmt.Fprintln(tw, "  unknown from\tto\tbecause\t")
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", history.Seconds(d.From), history.Seconds(d.To), d.Reason)
	}
	return tw.Flush()
}

func questions(s prober.QueryStream) string {
	switch s.Mode {
	case history.Dial:
		return "connections"
	case history.HTTP, history.HTTPKept:
		return "GET " + s.Path
	}
	var all []string
	for _, q := range s.Questions {
		all = append(all, fmt.Sprintf("%s %s", q.Name, dns.Type(q.Type)))
	}
	return strings.Join(all, ", ")
}

func transport(s prober.QueryStream) string {
	switch s.Mode {
	case history.Fixed:
		return fmt.Sprintf("from %d fixed ports", s.Ports)
	case history.Connect:
		return "over TCP, a connection each"
	case history.Kept:
		return fmt.Sprintf("over %d TCP connections", s.Ports)
	case history.Dial:
		return "over TCP, opened and closed"
	case history.HTTP:
		return "over HTTP, a connection each"
	case history.HTTPKept:
		return fmt.Sprintf("over HTTP connections, of which up to %d are kept", s.Ports)
	default:
		return "from a fresh port each"
	}
}

func total(doubts []history.Doubt) (sum time.Duration) {
	for _, d := range doubts {
		sum += d.To - d.From
	}
	return sum
}

// Limits are what a probe may find without failing; nil: no limit.
type Limits struct {
	MaxWindow *time.Duration // length of a window
	MaxLost   *int           // queries
}

// Exceeded returns an error for each limit that the probe exceeded.
func (r Report) Exceeded(l Limits) error {
	var errs []error
	for _, s := range r.Streams {
		for _, w := range s.Windows {
			if l.MaxWindow != nil && r.length(w) > *l.MaxWindow {
				errs = append(errs, fmt.Errorf("%s: the window at %s lasted %v or more, --max-window allows %v", s.Target, history.Seconds(w.From), short(w.Length()), *l.MaxWindow))
			}
		}
	}
	if lost := r.Summary.Lost(); l.MaxLost != nil && lost > *l.MaxLost {
		errs = append(errs, fmt.Errorf("%s lost, --max-lost allows %d", history.Count(lost, "query"), *l.MaxLost))
	}
	return errors.Join(errs...)
}

// Inconclusive returns why it is unknown whether the probe kept the limits, nil if it
// is known. An interrupted probe is inconclusive without limits, too.
func (r Report) Inconclusive(l Limits) error {
	var doubts []history.Doubt
	for _, s := range r.Streams {
		doubts = append(doubts, s.Doubts...)
	}
	switch {
	case r.Interrupted:
		return fmt.Errorf("interrupted after %s: %v were planned", history.Count(r.Summary.Asked, "query"), r.Plan.For)
	case l.MaxWindow == nil && l.MaxLost == nil:
		return nil
	case len(doubts) > 0:
		return fmt.Errorf("the limits cannot be evaluated: this machine stalled in %s, %v in all, the first at %s (%s); use a machine with less load",
			history.Count(len(doubts), "interval"), short(total(doubts)), history.Seconds(doubts[0].From), doubts[0].Reason)
	case r.Summary.Behind != "":
		return fmt.Errorf("the limits cannot be evaluated: %s; lower --rate or use a machine with less load", r.Summary.Behind)
	}
	return nil
}

// short rounds to what a reader can use.
func short(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}
