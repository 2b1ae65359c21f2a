package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// probeReport is what spotdrill probe prints. All times are nanoseconds, those
// of windows since the start of the probe.
type probeReport struct {
	Plan        prober.Plan      `json:"plan"`
	Start       history.Anchor   `json:"start"` // what times are relative to
	Summary     prober.Summary   `json:"summary"`
	Windows     []history.Window `json:"windows"`
	Doubts      []history.Doubt  `json:"doubts"` // nothing is known of these intervals
	Interrupted bool             `json:"interrupted"`
}

// resolution is how far off a window's edges may be.
func (r probeReport) resolution() time.Duration {
	return time.Second / time.Duration(r.Plan.Streams[0].Rate)
}

// length counts a window that was still open as if the next query had closed it.
func (r probeReport) length(w history.Window) time.Duration {
	if w.Open {
		return w.Length() + r.resolution()
	}
	return w.Length()
}

// print writes the report as a table.
func (r probeReport) print(w io.Writer) error {
	s, sum := r.Plan.Streams[0], r.Summary
	ports := "a fresh port each"
	if s.Mode == history.Fixed {
		ports = fmt.Sprintf("%d fixed ports", s.Ports)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(tw, name+"\t"+format+"\n", args...) }
	row("asked", "%s for %s %s, %d/s from %s", s.Server, s.Name, dns.Type(s.Type), s.Rate, ports)
	row("queries", "%d: %s", sum.Asked, outcomes(sum.Outcomes))
	l := sum.Latency
	row("latency", "p50 %v, p90 %v, p99 %v, p99.9 %v, max %v", short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max))
	l = sum.Service
	row("response", "p50 %v, p90 %v, p99 %v, p99.9 %v, max %v", short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max))
	row("schedule", "sent late by p99 %v, max %v; %d unsent", short(sum.LateP99), short(sum.LateMax), sum.Unsent)
	if sum.Ignored > 0 {
		row("ignored", "%d answers that came after their query's timeout", sum.Ignored)
	}
	if sum.Behind != "" {
		row("WARNING", "%s", sum.Behind)
	}
	if len(r.Windows) == 0 {
		row("windows", "none")
	} else {
		row("windows", "%d, each edge that early at most", len(r.Windows))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, window := range r.Windows {
		if i == 0 {
			fmt.Fprintln(tw, "  from\tearlier by\tto\tearlier by\tlength\tlost\tof\t")
		}
		open := ""
		if window.Open {
			open = "still lost at the end"
		}
		fmt.Fprintf(tw, "  %s\t%v\t%s\t%v\t%s\t%d\t%d\t%s\n", history.Seconds(window.From), short(window.FromMargin),
			history.Seconds(window.To), short(window.ToMargin),
			history.Seconds(window.Length()), window.Lost, window.Asked, open)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, d := range r.Doubts {
		if i == 0 {
			fmt.Fprintf(tw, "unknown: %d intervals, %v in all, of which this prober can say nothing\n", len(r.Doubts), short(r.doubted()))
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", history.Seconds(d.From), history.Seconds(d.To), d.Reason)
	}
	return tw.Flush()
}

// doubted is how long nothing was known in all.
func (r probeReport) doubted() (sum time.Duration) {
	for _, d := range r.Doubts {
		sum += d.To - d.From
	}
	return sum
}

// judge holds the report against the limits given.
func (r probeReport) judge(o probeOptions) error {
	var passed []error
	for _, w := range r.Windows {
		if allowed := time.Duration(o.maxWindow.value); o.maxWindow.given && r.length(w) > allowed {
			passed = append(passed, fmt.Errorf("the window at %s lasted %v or more, --max-window allows %v", history.Seconds(w.From), short(w.Length()), allowed))
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
	case len(r.Doubts) > 0:
		return exitError{exitUnknown, fmt.Errorf("the limits cannot be judged: nothing is known of %d intervals, %v in all, the first at %s (%s); use a machine with less to do",
			len(r.Doubts), short(r.doubted()), history.Seconds(r.Doubts[0].From), r.Doubts[0].Reason)}
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
