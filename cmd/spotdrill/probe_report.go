package main

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

// probeReport is what spotdrill probe prints. All times are nanoseconds, those
// of windows and doubts since the start of the probe.
type probeReport struct {
	Plan        prober.Plan    `json:"plan"`
	Start       history.Anchor `json:"start"` // what times are relative to
	Summary     prober.Summary `json:"summary"`
	Streams     []probeStream  `json:"streams"` // in the order of the plan
	Interrupted bool           `json:"interrupted"`
}

// probeStream is what was found in one stream.
type probeStream struct {
	Target  string           `json:"target"`
	Windows []history.Window `json:"windows"`
	Doubts  []history.Doubt  `json:"doubts"` // nothing is known of these intervals
}

// length counts a window that was still open as if the next query had closed it.
func (r probeReport) length(w history.Window) time.Duration {
	if w.Open {
		return w.Length() + time.Second/time.Duration(r.Plan.Streams[0].Rate)
	}
	return w.Length()
}

// print writes the report as tables.
func (r probeReport) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(tw, name+"\t"+format+"\n", args...) }
	for i, s := range r.Plan.Streams {
		sum := r.Summary.Streams[i]
		row("asked", "%s for %s, %d/s %s", s.Server, questions(s), s.Rate, means(s))
		row("queries", "%d: %s", sum.Asked, outcomes(sum.Outcomes))
		for _, l := range []struct {
			name string
			prober.Latency
		}{{"latency", sum.Latency}, {"response", sum.Response}} {
			row(l.name, "p50 %v, p90 %v, p99 %v, p99.9 %v, max %v", short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max))
		}
		row("schedule", "sent late by p99 %v, max %v; %d unsent, %d socket errors, %d answers dropped by the kernel",
			short(sum.LateP99), short(sum.LateMax), sum.Unsent, sum.SocketErrors, sum.Dropped)
		if sum.Reused > 0 {
			row("ports", "%d queries left from a port that was used less than 30s before, which is not fresh to connection tracking: lower --rate to 1800", sum.Reused)
		}
		if sum.Ignored > 0 {
			row("ignored", "%d answers that came after their query's timeout", sum.Ignored)
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
			row("unknown", "%d intervals, %v in all, in which this machine stalled", len(doubts), short(doubted(doubts)))
		}
		if err := errors.Join(tw.Flush(), r.Streams[i].print(tw)); err != nil {
			return err
		}
	}
	return nil
}

// print writes windows and doubts.
func (s probeStream) print(tw *tabwriter.Writer) error {
	for i, w := range s.Windows {
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
	for i, d := range s.Doubts {
		if i == 0 {
			fmt.Fprintln(tw, "  unknown from\tto\tbecause\t")
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", history.Seconds(d.From), history.Seconds(d.To), d.Reason)
	}
	return tw.Flush()
}

// questions names what a stream asks for.
func questions(s prober.Stream) string {
	var all []string
	for _, q := range s.Questions {
		all = append(all, fmt.Sprintf("%s %s", q.Name, dns.Type(q.Type)))
	}
	return strings.Join(all, ", ")
}

// means tells how a stream's queries travel.
func means(s prober.Stream) string {
	switch s.Mode {
	case history.Fixed:
		return fmt.Sprintf("from %d fixed ports", s.Ports)
	case history.Connect:
		return "over TCP, a connection each"
	case history.Kept:
		return fmt.Sprintf("over %d TCP connections", s.Ports)
	default:
		return "from a fresh port each"
	}
}

// doubted is how long nothing was known in all.
func doubted(doubts []history.Doubt) (sum time.Duration) {
	for _, d := range doubts {
		sum += d.To - d.From
	}
	return sum
}

// judge holds the report against the limits given.
func (r probeReport) judge(o probeOptions) error {
	var passed []error
	var doubts []history.Doubt
	for _, s := range r.Streams {
		doubts = append(doubts, s.Doubts...)
		for _, w := range s.Windows {
			if allowed := time.Duration(o.maxWindow.value); o.maxWindow.given && r.length(w) > allowed {
				passed = append(passed, fmt.Errorf("%s: the window at %s lasted %v or more, --max-window allows %v", s.Target, history.Seconds(w.From), short(w.Length()), allowed))
			}
		}
	}
	if lost := r.Summary.Lost(); o.maxLost.given && int64(lost) > o.maxLost.value {
		passed = append(passed, fmt.Errorf("%d queries were lost, --max-lost allows %d", lost, o.maxLost.value))
	}
	switch {
	case len(passed) > 0:
		return exitError{exitFailed, errors.Join(passed...)}
	case r.Interrupted:
		return exitError{exitUnknown, fmt.Errorf("interrupted: %d queries of %v planned were asked", r.Summary.Asked, r.Plan.For)}
	case !o.maxWindow.given && !o.maxLost.given:
		return nil
	case len(doubts) > 0:
		return exitError{exitUnknown, fmt.Errorf("the limits cannot be judged: nothing is known of %d intervals, %v in all, the first at %s (%s); use a machine with less to do",
			len(doubts), short(doubted(doubts)), history.Seconds(doubts[0].From), doubts[0].Reason)}
	case r.Summary.Behind != "":
		return exitError{exitUnknown, fmt.Errorf("the limits cannot be judged: %s; lower --rate or use a machine with less to do", r.Summary.Behind)}
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
