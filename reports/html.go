package reports

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

//go:embed page
var pageFiles embed.FS

// WriteHTML writes the report as one page that needs nothing else: no network,
// no other file. Its templates escape whatever comes from a cluster; should that
// ever fail, the page's policy lets no script run but its own.
func (r *Report) WriteHTML(w io.Writer) error {
	tmpl, err := template.New("page.html").Funcs(template.FuncMap{
		"ms": axisTime, "exact": exact, "run": runTime, "sign": sign, "word": word, "base": path.Base,
	}).ParseFS(pageFiles, "page/*.html")
	if err != nil {
		return fmt.Errorf("read the HTML report's templates: %w", err)
	}
	page, err := r.page()
	if err != nil {
		return err
	}
	// Executed as a whole first: half a page would look like all there is.
	var b bytes.Buffer
	if err := tmpl.Execute(&b, page); err != nil {
		return fmt.Errorf("render HTML report: %w", err)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("write HTML report: %w", err)
	}
	return nil
}

// page is what the template page.html shows.
type page struct {
	Style  template.CSS
	Script template.JS
	Policy string

	*Report
	Outcome  verdict.Outcome
	Headline string
	Facts    []fact
	Matrix   []matrixRow
	Troubles []trouble
	DNS      []dnsRow
	Unused   []Right
	Drills   []drillPart
}

type fact struct{ Name, Value string }

// matrixRow is a profile with a cell for each of its scenarios.
type matrixRow struct {
	ProfileCounts
	Cells []matrixCell
}

type matrixCell struct {
	ID, Scenario string
	Outcome      verdict.Outcome
}

// trouble is a scenario that did not pass, told in one sentence.
type trouble struct {
	ID, Scenario string
	verdict.Verdict
	More int // verdicts other than a pass besides this one
	Look lookAt
}

// dnsRow is what DNS lost in a scenario.
type dnsRow struct {
	ID, Scenario string
	CoreDNS      coredns.Settings
	Streams      []dnsCell
}

type dnsCell struct {
	Name, Lost, Window string
	// Share is the longest window's part, in percent, of the longest of all or of
	// a resolver's timeout, whichever is longer.
	Share float64
	Any   bool
}

func (r *Report) page() (*page, error) {
	style, err := pageFiles.ReadFile("page/style.css")
	if err != nil {
		return nil, fmt.Errorf("read the HTML report's style: %w", err)
	}
	script, err := pageFiles.ReadFile("page/script.js")
	if err != nil {
		return nil, fmt.Errorf("read the HTML report's script: %w", err)
	}
	sum := sha256.Sum256(script)
	p := &page{
		Style: template.CSS(style), Script: template.JS(script), Report: r,
		Policy:  "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
		Outcome: r.Summary.Outcome(), Headline: headline(r.Summary), Facts: r.facts(),
		Troubles: r.troubles(), DNS: r.dnsRows(), Unused: r.unused(),
	}
	for _, c := range r.Profiles {
		row := matrixRow{ProfileCounts: c}
		for _, e := range r.Results {
			if e.Profile == c.Profile {
				row.Cells = append(row.Cells, matrixCell{anchor(e), e.Scenario, e.Outcome.Known()})
			}
		}
		p.Matrix = append(p.Matrix, row)
	}
	for _, e := range r.Results {
		p.Drills = append(p.Drills, r.drillPart(e))
	}
	open(p.Drills)
	return p, nil
}

// openMax is how many drills are open when the page is: each takes a moment to
// draw.
const openMax = 3

// open shows what a reader came for: what did not pass, else the first drill.
func open(drills []drillPart) {
	opened := 0
	for i, d := range drills {
		o := d.Outcome.Known()
		if opened < openMax && (o == verdict.Fail || o == verdict.Unknown) {
			drills[i].Open = true
			opened++
		}
	}
	if first := slices.IndexFunc(drills, func(d drillPart) bool { return d.Timeline != nil }); opened == 0 && first >= 0 {
		drills[first].Open = true
	}
}

// Outcome is the verdict on all scenarios that were counted.
func (c Counts) Outcome() verdict.Outcome {
	switch {
	case c.Failed > 0:
		return verdict.Fail
	case c.Unknown > 0, c.Total == 0:
		return verdict.Unknown
	case c.Passed == 0:
		return verdict.Skipped
	}
	return verdict.Pass
}

func headline(c Counts) string {
	if c.Total == 0 {
		return "nothing was drilled"
	}
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Unknown, "could not be judged"}, {c.Passed, "passed"}, {c.Skipped, "skipped"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *Report) facts() []fact {
	facts := []fact{{"Handler", strings.TrimSpace(r.Handler.Name + " " + r.Handler.Version)}}
	for _, f := range []struct{ name, key string }{
		{"Kubernetes", "kubernetes"}, {"CoreDNS", "coredns"}, {"kube-proxy", "kube-proxy"}, {"Engine", "engine"}, {"Kernel", "kernel"}, {"Cores", "cores"},
	} {
		if v := r.Environment[f.key]; v != "" {
			facts = append(facts, fact{f.name, v})
		}
	}
	for _, level := range []struct {
		name   string
		counts Counts
	}{{"Core clauses", r.Core}, {"Extended clauses", r.Extended}} {
		if level.counts.Total > 0 {
			facts = append(facts, fact{level.name, headline(level.counts)})
		}
	}
	facts = append(facts, fact{"Set", string(r.Set)})
	if !r.Started.IsZero() {
		facts = append(facts, fact{"Started", r.Started.Format("2006-01-02 15:04:05 UTC")})
	}
	if r.Timings.Drills > 0 {
		facts = append(facts, fact{"Drills took", time.Duration(r.Timings.Drills).Round(time.Second).String()})
	}
	return facts
}

// troubles tells what to look at of each that did not pass.
func (r *Report) troubles() []trouble {
	var out []trouble
	for _, e := range r.notPassed() {
		o := e.Outcome.Known()
		t := trouble{ID: anchor(e), Scenario: e.Scenario, Verdict: verdict.Verdict{Outcome: o, Check: "run", Got: "no check was evaluated"}, More: -1}
		for _, v := range e.Verdicts {
			if v.Outcome.Known() == verdict.Pass {
				continue
			}
			if t.More++; v.Outcome.Known() == o && (t.More == 0 || t.Outcome.Known() != o || t.Want == "") {
				t.Verdict = v
			}
		}
		t.More = max(0, t.More)
		t.Look = lookFor(t.Verdict)
		out = append(out, t)
	}
	return out
}

// resolverTimeout is how long resolvers wait by default, see resolv.conf(5):
// windows are drawn beside it.
const resolverTimeout = 5 * time.Second

func (r *Report) dnsRows() []dnsRow {
	longest := resolverTimeout
	for _, e := range r.Results {
		if e.DNS == nil {
			continue
		}
		for _, s := range []verdict.Stream{e.DNS.Fresh, e.DNS.Fixed} {
			w, _ := s.Longest()
			longest = max(longest, w.Length())
		}
	}
	var rows []dnsRow
	for _, e := range r.Results {
		if e.DNS == nil {
			continue
		}
		row := dnsRow{ID: anchor(e), Scenario: e.Scenario, CoreDNS: e.CoreDNS}
		for _, s := range []struct {
			name string
			verdict.Stream
		}{{"fresh", e.DNS.Fresh}, {"fixed", e.DNS.Fixed}, {"control", e.DNS.Control}} {
			cell := dnsCell{Name: s.name, Lost: share(s.Stream)}
			if w, ok := s.Longest(); ok {
				cell.Any, cell.Window = true, windowLength(w)
				cell.Share = max(1, math.Round(100*float64(w.Length())/float64(longest)))
			}
			row.Streams = append(row.Streams, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// lookAt says where a reader finds more on a check's finding.
type lookAt struct {
	lane string // of the timeline
	Text string
}

// lookFor finds by a check's name where to look; the names are those of package
// verdict, which start with what they check. What a check could not be evaluated
// for is the premise that its finding starts with.
func lookFor(v verdict.Verdict) lookAt {
	check := v.Check
	if premise, _, ok := strings.Cut(v.Got, ":"); ok && v.Outcome.Known() == verdict.Unknown && slices.Contains([]string{"prober", "control", "baseline"}, premise) {
		check = premise
	}
	for _, l := range []struct {
		prefix string
		lookAt
	}{
		{"marked", lookAt{laneNode, "the lanes Handler and Node: was the message received, and what came after it? Then handler.log"}},
		{"drained", lookAt{lanePods, "the lane Pods: which one stayed, and was it evicted at all? Then PodDisruptionBudgets and handler.log"}},
		{"daemon pods", lookAt{lanePods, "the lane Pods: who ended a pod that a drain must leave? Then handler.log"}},
		{"deleted", lookAt{laneHandler, "the lane Handler: received and never deleted, or never received? Then handler.log"}},
		{"untouched", lookAt{laneNode, "the lane Node: what was done, and after which notice? Then handler.log"}},
		{"reserved nodes", lookAt{laneNode, "the lane Node: what was done, and after which notice? Then handler.log"}},
		{"no node touched", lookAt{laneNode, "the lane Node: what was done, and after which notice? Then handler.log"}},
		{"no eviction", lookAt{lanePods, "the lane Pods: who was evicted? Then handler.log"}},
		{"event on", lookAt{laneHandler, "the lane Handler: what the handler said of the node, and when"}},
		{"dns", lookAt{laneDNS, "the lane DNS answers: where the window opens, and what the endpoint and CoreDNS lanes show just before"}},
		{"endpoint", lookAt{laneEndpoints, "the lane kube-dns endpoints: when the address left, and who noticed"}},
		{"control", lookAt{laneDNS, "the control below the DNS answers: this machine was too busy to measure; repeat with less beside it"}},
		{"prober", lookAt{laneDNS, "the queries that never left (amber): this machine was too busy to measure; repeat with less beside it"}},
		{"baseline", lookAt{laneDNS, "the DNS answers before the notice: losses after a fault prove nothing where there were some before"}},
	} {
		if strings.HasPrefix(check, l.prefix) {
			return l.lookAt
		}
	}
	return lookAt{Text: "what the harness itself said: the note, the console's output and the files of the drill"}
}

// Href is where a trouble's evidence is on the page.
func (t trouble) Href() string {
	if t.Look.lane == "" {
		return "#" + t.ID
	}
	return "#" + t.ID + "-" + t.Look.lane
}

// anchor is an entry's id on the page.
func anchor(e Entry) string { return "drill-" + e.Scenario }

// sign and word tell an outcome without its colour.
func sign(o verdict.Outcome) string {
	return map[verdict.Outcome]string{verdict.Pass: "✓", verdict.Fail: "✕", verdict.Unknown: "?", verdict.Skipped: "–"}[o.Known()]
}

func word(o verdict.Outcome) string { return string(o.Known()) }

// historyHref is a relative link to a file of the drill.
func historyHref(dir, name string) string { return path.Join(dir, name) }
