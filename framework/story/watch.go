package story

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// gap is a time in which a watch of the cluster was lost.
type gap struct {
	of    string        // nodes, pods, …
	heard time.Duration // when the watch last delivered something
	lost  time.Duration // when its loss was noticed
	back  time.Duration // the largest Duration if it never came back
}

// catchUp is how long a watch that is back needs to deliver what it missed.
const catchUp = time.Second

func (g gap) String() string {
	if g.back == math.MaxInt64 {
		return fmt.Sprintf("the watch of %s was lost at +%s", g.of, history.Seconds(g.lost))
	}
	return fmt.Sprintf("the watch of %s was lost from +%s to +%s", g.of, history.Seconds(g.lost), history.Seconds(g.back))
}

// hides reports whether events of that kind are seen by the watch that was lost.
func (g gap) hides(kind history.Kind) bool {
	group, _, _ := strings.Cut(string(kind), ".")
	// The watch of EndpointSlices reports of which Service.
	return strings.HasPrefix(strings.ToLower(g.of), group)
}

// gapsOf finds when the watches were lost.
func gapsOf(events []history.Event) []gap {
	var gaps []gap
	for _, e := range events {
		switch e.Kind {
		case history.WatchLost:
			g := gap{of: e.Watch(), heard: e.At, lost: e.At, back: math.MaxInt64}
			if e.Said != nil {
				g.heard = min(g.heard, *e.Said)
			}
			gaps = append(gaps, g)
		case history.WatchBack:
			for i := range gaps {
				if gaps[i].of == e.Watch() && gaps[i].back == math.MaxInt64 {
					gaps[i].back = e.At
				}
			}
		}
	}
	return gaps
}

// Earliest is the earliest time at which something that a watch saw may have happened.
// That is before the watch saw it if the watch had just come back; why shows it then.
func (st *Story) Earliest(seen history.Event) (at time.Duration, why string) {
	at = seen.At
	for _, g := range st.gaps {
		if g.hides(seen.Kind) && g.lost <= seen.At && (g.back == math.MaxInt64 || seen.At <= g.back+catchUp) && g.heard < at {
			at, why = g.heard, g.String()
		}
	}
	return at, why
}

// Happened is when something happened, as exactly as the history knows: a busy machine
// sees it up to a second later. A line of CoreDNS's log has the time of the kubelet, an
// eviction that of its latest request in the API server's audit log; both use this
// machine's clock.
func (st *Story) Happened(seen history.Event) time.Duration {
	switch seen.Kind {
	case history.PodSignalled, history.PodLameduck:
		if seen.Said != nil {
			return min(seen.At, *seen.Said)
		}
	case history.PodEvicted:
		at := time.Duration(-1)
		for _, asked := range st.audit.pods[seen.Pod] {
			if asked >= seen.At-answered && asked <= seen.At {
				at = max(at, asked)
			}
		}
		if at >= 0 {
			return at
		}
	}
	return seen.At
}

// Unseen is the reason why something that a watch would have to show by then is unknown:
// the recording ends before, or the watch was lost then. It is empty if neither is so.
func (st *Story) Unseen(until time.Duration) string {
	if why := st.Unrecorded(until); why != "" {
		return why
	}
	for _, g := range st.gaps {
		if g.lost <= until && until < g.back {
			return fmt.Sprintf("not by +%s, and %s", history.Seconds(until), g)
		}
	}
	return ""
}

// Unrecorded is the reason why something that would have to be on record by then is
// unknown: the recording ends before, or this machine stood still meanwhile. It is empty if
// the recording goes on until then.
func (st *Story) Unrecorded(until time.Duration) string {
	if st.Observed < until {
		return fmt.Sprintf("not by +%s, and the recording ends there", history.Seconds(st.Observed))
	}
	for _, s := range st.standstills {
		if s.from <= until {
			return fmt.Sprintf("this machine stood still from +%s to +%s", history.Seconds(s.from), history.Seconds(s.to))
		}
	}
	return ""
}

// Broken is why the events of a history are not all there: it is cut off, or has a hole. It is empty if
// they are.
func Broken(h history.History) string {
	for i, e := range h.Events {
		if e.Seq != i+1 {
			return fmt.Sprintf("the record has a hole: event %d is missing, and %d comes in its place", i+1, e.Seq)
		}
	}
	if n := len(h.Events); n == 0 || h.Events[n-1].Kind != history.RunEnded {
		return "the record is cut off: its last event is missing"
	}
	return ""
}

// standstill is a time in which nothing ran on this machine, as when it is suspended. Nobody
// could keep a limit that ended in it.
type standstill struct{ from, to time.Duration }

// shortestStandstill is well above the pauses of the sampler of waits on a busy machine: 0.2 s.
const shortestStandstill = 5 * time.Second

// standstillsOf finds them by the time that the sampler of waits was not woken up.
func standstillsOf(events []history.Event) []standstill {
	var all []standstill
	for _, e := range events {
		slept := e.Numbers.Duration(history.Resolution)
		if e.Kind != history.ProcessorWaited || slept < shortestStandstill {
			continue
		}
		if s := (standstill{e.At - slept, e.At}); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// MayBeInTime shows why something that a watch saw after a limit may have happened before
// it, or "".
func (st *Story) MayBeInTime(seen history.Event, limit time.Duration) string {
	at, why := st.Earliest(seen)
	switch {
	case seen.At <= limit:
		return ""
	case at < limit && why != "":
		return "it may have been seen late: " + why
	case seen.At-SeenLate < limit:
		return fmt.Sprintf("it may have been seen late: a watch takes up to %s", SeenLate)
	}
	return ""
}
