package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
)

// numbersOf are the figures of a measurement.
func numbersOf(m loss.Measurement) map[string]float64 {
	out := map[string]float64{"asked_control": float64(m.Control.Asked), "lost_control": float64(m.Control.Lost)}
	for mode, s := range m.Streams("all") {
		longest, _ := s.Longest()
		out[fmt.Sprintf("asked_%s", mode)] = float64(s.Asked)
		out[fmt.Sprintf("lost_%s", mode)] = float64(s.Lost)
		out[fmt.Sprintf("windows_%s", mode)] = float64(len(s.Windows))
		out[fmt.Sprintf("window_%s_max_ms", mode)] = milliseconds(longest.Length())
		out[fmt.Sprintf("latency_%s_p50_ms", mode)] = milliseconds(s.P50)
		out[fmt.Sprintf("latency_%s_p99_ms", mode)] = milliseconds(s.P99)
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// counted is what a check counts of the streams of its modes: without the queries that
// this machine lost, with proof, and on request without those that connection tracking
// lost. except names both, with their numbers.
func (j judge) counted(v *Verdict, mode string, conntrack bool) (streams loss.Streams, except string) {
	streams = j.measured.Streams(mode)
	why := j.attribution()
	var left []loss.Cause
	leave := func(number, text string, causes ...loss.Cause) {
		was := streams.Lost()
		left = append(left, causes...)
		v.Counted = why.Without(left...)
		streams = v.Counted.Streams(mode)
		if n := was - streams.Lost(); n > 0 || number == "lost_conntrack" {
			v.Numbers[number] = float64(n)
			except += fmt.Sprintf(", without %d that %s", n, text)
		}
	}
	if why.Starved() && streams.Lost() > 0 {
		leave("lost_no_processor", "were lost at pods that had no processor", loss.NoProcessor)
	}
	if conntrack {
		leave("lost_conntrack", "connection tracking itself lost", loss.EntryRemoved, loss.InsertFailed)
	}
	return streams, except
}

// windowsOf describes each mode's longest window.
func (j judge) windowsOf(streams loss.Streams) string {
	var parts []string
	for _, mode := range loss.Modes() {
		s, ok := streams[mode]
		if !ok || j.target.Rate(mode) == 0 {
			continue
		}
		w, ok := s.Longest()
		if !ok {
			parts = append(parts, fmt.Sprintf("%s: no window", mode))
			continue
		}
		more := ""
		if n := len(s.Windows); n > 1 {
			more = fmt.Sprintf(", the longest of %d", n)
		}
		if w.Open {
			more += ", still open"
		}
		parts = append(parts, fmt.Sprintf("%s: %s from +%s (%d of %d lost%s)", mode, history.Seconds(w.Length()), history.Seconds(w.From), w.Lost, w.Asked, more))
	}
	return strings.Join(parts, "; ")
}

// around are the events that belong to the windows: what happened to pods and
// endpoints of DNS shortly before and within.
func (j judge) around(streams loss.Streams) []history.Event {
	var windows []history.Window
	for _, mode := range loss.Modes() {
		windows = append(windows, streams[mode].Windows...)
	}
	return capped(j.All(func(e history.Event) bool {
		if !j.target.Concerns(e) {
			return false
		}
		switch e.Kind {
		case history.Reclaimed, history.EndpointReady, history.EndpointNotReady, history.EndpointTerminating, history.EndpointGone,
			history.PodTerminating, history.PodExited, history.PodDeleted:
			return slices.ContainsFunc(windows, func(w history.Window) bool {
				return e.At >= w.From-history.Quiet && e.At <= w.To
			})
		}
		return false
	}))
}
