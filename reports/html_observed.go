package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/scenarios"
)

// observedPart is what a service in the user's own cluster answered: it leads the page of an observation.
type observedPart struct {
	ID, Service   string
	Share         string
	Longest, When string // the longest window and its time of day; empty if nothing was lost
	Queries       string
	Nodes         []observedNode // those with losses first
}

// observedNode is what the probers on one node lost.
type observedNode struct {
	Name, Lost, Longest string
	lost                int
}

// observation reports whether the report is of a cluster that was observed, without a handler.
func (r *Report) observation() bool {
	return len(r.Results) > 0 && !slices.ContainsFunc(r.Results, func(e Entry) bool { return e.Scenario != scenarios.ObservationName })
}

// observed has a part for each service that was measured in an observation.
func (r *Report) observed() []observedPart {
	if !r.observation() {
		return nil
	}
	var out []observedPart
	for _, e := range r.Results {
		if e.DNS != nil {
			out = append(out, newObservedPart(e, "DNS", "queries", *e.DNS))
		}
		if e.Application != nil {
			out = append(out, newObservedPart(e, "The application", "requests", *e.Application))
		}
	}
	return out
}

func newObservedPart(e Entry, service, queries string, m loss.Measurement) observedPart {
	p := observedPart{ID: anchor(e), Service: service, Queries: queries, Share: answeredShare(m)}
	if w, ok := longestOf(m); ok {
		p.Longest = windowLength(w)
		if e.timeline != nil {
			p.When = wallClock(e.timeline.Base, w.From) + " to " + wallClock(e.timeline.Base, w.To)
		}
	}
	of := map[string][]history.Query{}
	for _, s := range m.Streams("all") {
		for _, q := range s.Queries {
			name := cmp.Or(q.Node, "unknown")
			of[name] = append(of[name], q)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		p.Nodes = append(p.Nodes, newObservedNode(name, of[name]))
	}
	slices.SortStableFunc(p.Nodes, func(a, b observedNode) int { return cmp.Compare(b.lost, a.lost) })
	return p
}

func newObservedNode(name string, queries []history.Query) observedNode {
	n := observedNode{Name: name}
	slices.SortStableFunc(queries, func(a, b history.Query) int { return cmp.Compare(a.Intended, b.Intended) })
	s := loss.Stream{Asked: len(queries), Windows: history.Windows(queries, history.Quiet)}
	for _, q := range queries {
		if q.Outcome.Lost() {
			s.Lost++
		}
	}
	n.Lost, n.lost = share(s), s.Lost
	if w, ok := s.Longest(); ok {
		n.Longest = windowLength(w)
	}
	return n
}

// answeredShare is "98.715 % of 1,401 answered, 18 lost". It is never rounded to 100 % if one was lost.
func answeredShare(m loss.Measurement) string {
	asked, lost := 0, 0
	for _, s := range m.Streams("all") {
		asked, lost = asked+s.Asked, lost+s.Lost
	}
	if asked == 0 {
		return "nothing was asked"
	}
	text := "100"
	for digits := 2; lost > 0 && digits < 9; digits++ {
		if text = fmt.Sprintf("%.*f", digits, 100*float64(asked-lost)/float64(asked)); text[:3] != "100" {
			break
		}
	}
	return fmt.Sprintf("%s %% of %s answered, %s lost", text, thousands(int64(asked)), thousands(int64(lost)))
}

// longestOf is the longest window in which queries to the service were lost; false if there is none.
func longestOf(m loss.Measurement) (longest history.Window, lost bool) {
	for _, s := range m.Streams("all") {
		if w, ok := s.Longest(); ok && (!lost || w.Length() > longest.Length()) {
			longest, lost = w, true
		}
	}
	return longest, lost
}

// wallClock is the time of day of a moment of a history; a time of the history itself if its base is unknown.
func wallClock(base time.Time, at time.Duration) string {
	if base.IsZero() {
		return runTime(at)
	}
	return base.Add(at).UTC().Format("15:04:05.000 UTC")
}
