package reports

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports/timeline"
	"github.com/spotdrill/spotdrill/scenarios"
)

// laneID is the id of a lane on the page, after the drill's own.
func laneID(name string) string {
	return map[string]string{
		timeline.Notices: "notice", timeline.Handler: string(verdict.LaneHandler), timeline.Nodes: string(verdict.LaneNode),
		timeline.Pods: string(verdict.LanePods), timeline.Endpoints: string(verdict.LaneEndpoints), timeline.CoreDNS: "coredns", timeline.ApplicationEndpoints: "application-endpoints",
		timeline.Answers: string(verdict.LaneDNS),
	}[name]
}

// drillPart is what the template drill.html shows.
type drillPart struct {
	ID string
	Entry
	Open     bool
	Brief    string // its result, next to its name
	Settings string
	Findings []finding
	Passes   []finding
	Files    []string
	// Command plays the drill again, Rejudge judges its history again.
	Command, Rejudge string
	Timeline         *timelinePart
	Sequence         *sequencePart // nil if nothing is on record
}

// finding is a verdict, with the records that show it if it is no pass.
type finding struct {
	ID string
	verdict.Verdict
	Records []citation
}

type citation struct {
	Seq    int
	Line   string
	At     string // on the timeline's axis
	Placed bool   // on the timeline
}

func (r *Report) drillPart(e Entry) drillPart {
	d := drillPart{ID: anchor(e), Entry: e, Settings: settings(e), Files: r.filesOf(e)}
	if e.Outcome.Known() != verdict.Skipped {
		d.Command = r.Reproduce(e)
	}
	if e.timeline != nil {
		d.Rejudge = r.rejudge(e)
	}
	ids := checkIDs(e)
	for i, v := range e.Verdicts {
		f := finding{ID: ids[i], Verdict: v}
		if v.Outcome.Known() == verdict.Pass {
			d.Passes = append(d.Passes, f)
			continue
		}
		for _, seq := range v.Evidence {
			c, ok := e.evidence[seq]
			if !ok || c.line == "" {
				continue
			}
			rec := citation{Seq: seq, Line: c.line}
			if t := e.timeline; t != nil && c.at >= t.From && c.at <= t.To {
				rec.At, rec.Placed = axisTime(t, c.at), true
			}
			f.Records = append(f.Records, rec)
		}
		d.Findings = append(d.Findings, f)
	}
	d.Brief = brief(e)
	if e.timeline != nil {
		d.Timeline, d.Sequence = newTimelinePart(e), newSequencePart(e)
	}
	return d
}

// brief is a drill's result next to its name.
func brief(e Entry) string {
	switch e.Outcome.Known() {
	case verdict.Skipped, verdict.Fail, verdict.Unknown:
		return reason(e)
	}
	switch {
	case e.DNS == nil:
		return e.Title
	case e.Scenario == scenarios.ObservationName:
		return answeredShare(*e.DNS)
	}
	if e.Application == nil {
		return answered("DNS", "query", *e.DNS)
	}
	return answered("the application", "request", *e.Application) + ", " + answered("DNS", "query", *e.DNS)
}

// answered is how a service answered.
func answered(service, query string, m loss.Measurement) string {
	longest, broke := longestOf(m)
	if !broke {
		return service + " answered every " + query
	}
	return service + " broke for up to " + windowLength(longest)
}

func settings(e Entry) string {
	c := e.CoreDNS
	if c.Replicas == 0 {
		return ""
	}
	text := fmt.Sprintf("CoreDNS: %s, %s; lameduck %s; readiness every %s, %s; grace %s",
		history.Count(c.Replicas, "replica"), c.Placement, c.Lameduck.D(), c.Readiness.Period.D(), history.Count(c.Readiness.FailureThreshold, "failure"), c.GracePeriod.D())
	if c.Unsafe {
		text += "; unsafe: killed in the middle of lameduck"
	}
	for _, change := range c.OfOperators() {
		text += "; " + change
	}
	return text
}

// filesOf lists the drill's files, relative to the report.
func (r *Report) filesOf(e Entry) []string {
	if e.History == "" {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(r.folder.Path, e.History))
	if err != nil {
		return nil // a report that was moved away from its histories
	}
	var files []string
	for _, f := range entries {
		if name := f.Name(); !f.IsDir() && name != HTMLFile {
			files = append(files, path.Join(e.History, name))
		}
	}
	return files
}

// timelinePart is what the template timeline.html shows.
type timelinePart struct {
	*timeline.Timeline
	ID      string // the drill's
	Tone    verdict.Outcome
	Lanes   []lanePart
	Ticks   []tick
	Bands   []windowPart // the service's longest windows, through all lanes
	Streams []streamPart
	Jumps   []jump
	Falls   []fallPart
	List    []listed
}

type lanePart struct {
	ID string
	timeline.Lane
}

type tick struct{ At, Text string }

type windowPart struct {
	At, Width, Label, Text string
	Key                    bool // the stream's longest
}

// jump is a part of the timeline to go to.
type jump struct{ From, Span, Text string }

// listed is a row of the list below the picture.
type listed struct {
	at          time.Duration
	At, Run     string
	Where, Text string
	Seq         int
}

// bandsMax is the most windows that are drawn through all lanes.
const bandsMax = 8

func newTimelinePart(e Entry) *timelinePart {
	id, t := anchor(e), e.timeline
	p := &timelinePart{Timeline: t, ID: id, Tone: e.Outcome.Known(), Ticks: ticks(t)}
	for _, l := range t.Lanes {
		p.Lanes = append(p.Lanes, lanePart{id + "/timeline-" + laneID(l.Name), l})
		for _, row := range l.Rows {
			for _, m := range row.Marks {
				p.List = append(p.List, listed{m.At, exact(t, m.At), runTime(m.At), l.Name + ", " + row.Name, m.Text, m.Seq})
			}
		}
	}
	p.Jumps = append(p.Jumps, jump{axisTime(t, t.From), width(t.To - t.From), "whole drill"})
	if len(t.Waterfalls) > 0 {
		p.Jumps = append(p.Jumps, jump{axisTime(t, t.Zero-200*time.Millisecond), width(6 * time.Second), "the first seconds"})
	}
	var service []history.Window
	for _, s := range t.Streams {
		part := newStreamPart(t, s)
		p.Streams = append(p.Streams, part)
		for _, w := range s.Measured.Windows {
			p.List = append(p.List, listed{w.From, exact(t, w.From), runTime(w.From), timeline.Answers + ", " + s.Name, windowText(w), 0})
		}
		if s.Service {
			service = append(service, s.Measured.Windows...)
			if w, ok := s.Measured.Longest(); ok {
				margin := w.Length()/2 + 50*time.Millisecond
				p.Jumps = append(p.Jumps, jump{axisTime(t, w.From-margin), width(w.Length() + 2*margin), s.Name + ": " + windowLength(w)})
			}
		}
	}
	slices.SortStableFunc(service, func(a, b history.Window) int { return cmp.Compare(b.Length(), a.Length()) })
	for _, w := range service[:min(len(service), bandsMax)] {
		p.Bands = append(p.Bands, windowPart{At: axisTime(t, w.From), Width: width(w.Length())})
	}
	slices.SortStableFunc(p.List, func(a, b listed) int { return cmp.Compare(a.at, b.at) })
	p.List = p.List[:min(len(p.List), listMax)]
	for _, w := range t.Waterfalls {
		p.Falls = append(p.Falls, newFallPart(t, w))
	}
	return p
}

// listMax is the most moments in the list below the picture; the history has all.
const listMax = 500

// Left is where a span begins on the axis, Long how long it is.
func (p *timelinePart) Left(s timeline.Span) string { return axisTime(p.Timeline, s.From) }

// Long is a span's length on the axis.
func (p *timelinePart) Long(s timeline.Span) string { return width(s.To - s.From) }

// Lasting is a span's text with its length.
func (p *timelinePart) Lasting(s timeline.Span) string {
	return fmt.Sprintf("%s, %s", s.Text, history.Seconds(s.To-s.From))
}

// Began is the zero of the axis as a time of day; empty if the history does not have it.
func (p *timelinePart) Began() string {
	if p.Base.IsZero() {
		return ""
	}
	return wallClock(p.Base, p.Zero)
}

// BaseMilliseconds is when the history began, since 1970; 0 if it is unknown.
func (p *timelinePart) BaseMilliseconds() int64 {
	if p.Base.IsZero() {
		return 0
	}
	return p.Base.UnixMilli()
}

// Shown is the length of the axis.
func (p *timelinePart) Shown() string { return width(p.To - p.From) }

// ticks are round times, about eight of them.
func ticks(t *timeline.Timeline) []tick {
	step := tickStep(t.To - t.From)
	var out []tick
	for at := (t.From - t.Zero).Truncate(step); at <= t.To-t.Zero; at += step {
		if t.Zero+at >= t.From {
			out = append(out, tick{axisTime(t, t.Zero+at), fmt.Sprintf("%g s", at.Seconds())})
		}
	}
	return out
}

func tickStep(shown time.Duration) time.Duration {
	for _, s := range []time.Duration{1, 2, 5, 10, 15, 20, 30, 60, 120, 300} {
		if shown <= 9*s*time.Second {
			return s * time.Second
		}
	}
	return shown / 9
}

// axisTime is a time on the timeline's axis: milliseconds since its zero.
func axisTime(t *timeline.Timeline, at time.Duration) string { return width(at - t.Zero) }

func width(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', -1, 64)
}

// exact is a time since the zero of the axis, for people.
func exact(t *timeline.Timeline, at time.Duration) string {
	return strings.Replace(fmt.Sprintf("%.3f s", (at-t.Zero).Seconds()), "-", "−", 1)
}

// runTime is a time in the format of the history and the verdicts.
func runTime(at time.Duration) string { return "+" + history.Seconds(at) }

// windowLength is a window's length in milliseconds.
func windowLength(w history.Window) string {
	text := thousands(w.Length().Round(time.Millisecond).Milliseconds()) + " ms"
	if w.Open {
		text += " or more"
	}
	return text
}

func windowText(w history.Window) string {
	return fmt.Sprintf("window of %s, %s of %s lost", windowLength(w), thousands(int64(w.Lost)), thousands(int64(w.Asked)))
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// pairPart sets a drill next to the one that shows how its outage is avoided, on one axis of
// milliseconds.
type pairPart struct {
	Halves        []pairHalf
	From, Span    string
	Before, After time.Duration
}

// pairHalf is the DNS answers of one of them.
type pairHalf struct {
	ID string
	Entry
	Streams []pairStream
}

// Allowed is what its checks allow the service to lose.
func (h pairHalf) Allowed() string { return allowed(h.Entry) }

type pairStream struct {
	streamPart
	Longest string // the longest window, "" without one
}

// pairParts are those of which both drills are in the report, with their histories.
func (r *Report) pairParts() []pairPart {
	var out []pairPart
	for _, e := range r.Results {
		i := slices.IndexFunc(r.Results, func(o Entry) bool { return o.Scenario == e.Counterpart })
		if i < 0 || len(serviceOf(e)) == 0 || len(serviceOf(r.Results[i])) == 0 {
			continue
		}
		out = append(out, newPairPart(e, r.Results[i]))
	}
	return out
}

func newPairPart(entries ...Entry) pairPart {
	var p pairPart
	for _, e := range entries {
		t := e.timeline
		p.Before, p.After = max(p.Before, t.Zero-t.From), max(p.After, t.To-t.Zero)
		half := pairHalf{ID: anchor(e), Entry: e}
		for _, s := range serviceOf(e) {
			stream := pairStream{streamPart: newStreamPart(t, s)}
			if w, ok := s.Measured.Longest(); ok {
				stream.Longest = windowLength(w)
			}
			half.Streams = append(half.Streams, stream)
		}
		p.Halves = append(p.Halves, half)
	}
	p.From, p.Span = width(-p.Before), width(p.Before+p.After)
	p.Before, p.After = p.Before.Round(time.Second), p.After.Round(time.Second)
	return p
}

// serviceOf are the streams to the DNS service, and to an application.
func serviceOf(e Entry) []timeline.AnswerRow {
	if e.timeline == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(e.timeline.Streams), func(s timeline.AnswerRow) bool { return !s.Service })
}
