package reports

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

//go:embed page
var pageFiles embed.FS

// WriteHTML writes the report as one page that needs no network and no other file.
// Its templates escape all text from a cluster; if that ever fails, the page's
// policy allows no script except its own.
func (r *Report) WriteHTML(w io.Writer) error {
	page, err := r.page()
	if err != nil {
		return err
	}
	return writePage(w, "page.html", page)
}

// writePage writes what a template shows.
func writePage(w io.Writer, name string, data any) error {
	tmpl := template.New(name)
	tmpl.Funcs(template.FuncMap{
		"ms": axisTime, "exact": exact, "run": runTime, "sign": sign, "word": word, "base": path.Base, "link": link,
		"packed": func(name string, data any) (string, error) { return packed(tmpl, name, data) },
	})
	if _, err := tmpl.ParseFS(pageFiles, "page/*.html"); err != nil {
		return fmt.Errorf("read the page's templates: %w", err)
	}
	// Rendered into memory first: half a page would look complete.
	var b bytes.Buffer
	if err := tmpl.Execute(&b, data); err != nil {
		return fmt.Errorf("render page: %w", err)
	}
	_, err := io.WriteString(w, foreign.Page(b.String()))
	return wrap.Errorf(err, "write page")
}

// packed is what a template shows, compressed. The script draws it when it is needed: the timelines of
// hundreds of drills would make the page large, and slow to open.
func packed(tmpl *template.Template, name string, data any) (string, error) {
	var text, b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if err := tmpl.ExecuteTemplate(&text, name, data); err != nil {
		return "", err
	}
	_, err = io.WriteString(z, foreign.Page(text.String()))
	if err := errors.Join(err, z.Close()); err != nil {
		return "", err
	}
	return base64.URLEncoding.EncodeToString(b.Bytes()), nil // without +, which would be escaped
}

// link is the address of a part of the page.
func link(id string) template.URL {
	return template.URL("#" + (&url.URL{Path: id}).EscapedPath()) //nolint:gosec // it begins with #
}

// frame is what every page consists of besides its contents.
type frame struct {
	Style  template.CSS
	Script template.JS
	Policy string
}

func newFrame() (frame, error) {
	style, err := pageFiles.ReadFile("page/style.css")
	if err != nil {
		return frame{}, fmt.Errorf("read the page's style: %w", err)
	}
	script, err := pageFiles.ReadFile("page/script.js")
	if err != nil {
		return frame{}, fmt.Errorf("read the page's script: %w", err)
	}
	sum := sha256.Sum256(script)
	return frame{
		Style: template.CSS(style), Script: template.JS(script), //nolint:gosec // both are embedded files of ours
		Policy: "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'",
	}, nil
}

// page is what the template page.html shows.
type page struct {
	frame
	*Report
	Outcome  verdict.Outcome
	Headline string
	Facts    []fact
	Matrix   []matrixRow
	Troubles []trouble
	Observed []observedPart
	Choices  []choice
	DNS      []dnsRow
	Pairs    []pairPart
	Unused   []Right
	Drills   []drillPart
}

type fact struct{ Name, Value string }

// choice is an outcome or a state by which drills can be selected, and how many have it.
type choice struct{ Value, Sign, Text string }

// matrixRow is a profile with a cell for each of its scenarios.
type matrixRow struct {
	ProfileCounts
	Cells []matrixCell
}

type matrixCell struct {
	ID, Scenario string
	Outcome      verdict.Outcome
}

// trouble is a scenario that did not pass, in one sentence.
type trouble struct {
	Anchor, Scenario string
	Target           string // the id of the check
	verdict.Verdict
	More int // verdicts other than a pass besides this one
}

// dnsRow is the lost queries of a scenario.
type dnsRow struct {
	ID, Scenario string
	Outcome      verdict.Outcome
	// Allowed is what the drill's checks allow DNS to lose.
	Allowed  string
	CoreDNS  coredns.Settings
	Streams  []dnsCell
	measured *loss.Measurement
}

type dnsCell struct {
	Name, Lost, Window string
	// Share is the length of the longest window, in percent of the longest one on the
	// page or of a resolver's timeout, whichever is longer.
	Share float64
	Any   bool
}

func (r *Report) page() (*page, error) {
	frame, err := newFrame()
	if err != nil {
		return nil, err
	}
	p := &page{
		frame: frame, Report: r, Outcome: r.Summary.Outcome(), Headline: headline(r.Summary), Facts: r.facts(),
		Troubles: r.troubles(), Observed: r.observed(), DNS: r.dnsRows(), Pairs: r.pairParts(), Unused: r.unused(),
	}
	for _, o := range []struct {
		verdict.Outcome
		n int
	}{{verdict.Fail, r.Summary.Failed}, {verdict.Unknown, r.Summary.Unknown}, {verdict.Pass, r.Summary.Passed}, {verdict.Skipped, r.Summary.Skipped}} {
		if o.n > 0 {
			p.Choices = append(p.Choices, choice{word(o.Outcome), sign(o.Outcome), fmt.Sprintf("%d %s", o.n, o.Outcome)})
		}
	}
	if r.observation() {
		p.Headline = brief(r.Results[0])
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

// ProfileNames are those of the drills.
func (p *page) ProfileNames() []string {
	names := make([]string, len(p.Profiles))
	for i, c := range p.Profiles {
		names[i] = c.Profile
	}
	return names
}

// openMax is how many drills are open at first: each takes a moment to draw.
const openMax = 3

// open opens the drills that did not pass, or else the first drill.
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
	}{{c.Failed, "failed"}, {c.Unknown, "unknown"}, {c.Passed, "passed"}, {c.Skipped, "skipped"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *Report) facts() []fact {
	var facts []fact
	observation := r.observation()
	if !observation {
		facts = append(facts, fact{"Handler", strings.TrimSpace(r.Handler.Name + " " + r.Handler.Version)})
	}
	for _, f := range []struct{ name, key string }{
		{"Cluster", ContextOf}, {"Platform", history.PlatformKey}, {"Not here", history.PlatformLacksKey}, {"Kubernetes", "kubernetes"}, {"CoreDNS", "coredns"}, {"kube-proxy", "kube-proxy"}, {"Engine", "engine"}, {"Kernel", "kernel"}, {"Cores", "cores"}, {"CPU weight of containers", "engine-cpu-weight"},
	} {
		if v := r.Environment[f.key]; v != "" {
			facts = append(facts, fact{f.name, v})
		}
	}
	for _, level := range []struct {
		name   string
		counts Counts
	}{{"Core scenarios", r.Core}, {"Extended scenarios", r.Extended}} {
		if level.counts.Total > 0 {
			facts = append(facts, fact{level.name, headline(level.counts)})
		}
	}
	if !observation {
		facts = append(facts, fact{"Set", string(r.Set)})
	}
	if !r.Started.IsZero() {
		facts = append(facts, fact{"Started", r.Started.Format("2006-01-02 15:04:05 UTC")})
	}
	if r.Timings.Drills > 0 {
		facts = append(facts, fact{"Drills took", time.Duration(r.Timings.Drills).Round(time.Second).String()})
	}
	return facts
}

// troubles are the scenarios that did not pass, each with the verdict to look at first.
func (r *Report) troubles() []trouble {
	var out []trouble
	for _, e := range r.notPassed() {
		ids := checkIDs(e)
		t := trouble{Anchor: anchor(e), Target: anchor(e), Scenario: e.Scenario, Verdict: e.First(), More: -1}
		for i, v := range e.Verdicts {
			if v.Outcome.Known() != verdict.Pass {
				t.More++
			}
			if v.Check == t.Check && v.Outcome == t.Outcome && v.Got == t.Got {
				t.Target = ids[i]
			}
		}
		t.More = max(0, t.More)
		out = append(out, t)
	}
	return out
}

// resolverTimeout is how long resolvers wait by default, see resolv.conf(5); it sets
// the scale of the windows.
const resolverTimeout = 5 * time.Second

func (r *Report) dnsRows() []dnsRow {
	longest := resolverTimeout
	var rows []dnsRow
	for _, e := range r.Results {
		var tcp *loss.Measurement
		if e.DNS != nil {
			tcp = e.DNS.OverTCP()
		}
		for _, m := range []struct {
			what string
			*loss.Measurement
		}{{"", e.DNS}, {" (TCP)", tcp}, {" (application)", e.Application}} {
			if m.Measurement == nil {
				continue
			}
			for _, s := range []loss.Stream{m.Fresh, m.Fixed} {
				w, _ := s.Longest()
				longest = max(longest, w.Length())
			}
			rows = append(rows, dnsRow{ID: anchor(e), Scenario: e.Scenario + m.what, Outcome: e.Outcome.Known(), Allowed: allowed(e), CoreDNS: e.CoreDNS, measured: m.Measurement})
		}
	}
	for i := range rows {
		row := &rows[i]
		for _, s := range []struct {
			name string
			loss.Stream
		}{{"fresh", row.measured.Fresh}, {"fixed", row.measured.Fixed}, {"control", row.measured.Control}} {
			cell := dnsCell{Name: s.name, Lost: share(s.Stream)}
			if w, ok := s.Longest(); ok {
				cell.Any, cell.Window = true, windowLength(w)
				cell.Share = max(1, math.Round(100*float64(w.Length())/float64(longest)))
			}
			row.Streams = append(row.Streams, cell)
		}
	}
	return rows
}

// Look is what a reader should look at next. A report of an earlier version may not
// have the check's kind.
func (t trouble) Look() string {
	return cmp.Or(t.Kind().Look.Text, "the verdict's evidence in the drill's history.jsonl")
}

// Lane is the id of the part of the drill's timeline with a trouble's evidence; the drill's own if it has none.
func (t trouble) Lane() string {
	if lane := t.Kind().Look.Lane; lane != "" {
		return t.Anchor + "/timeline-" + string(lane)
	}
	return t.Anchor
}

// anchor is an entry's id on the page: the scenario's name, so that a link to a drill can be written by hand. The
// page's other ids begin with a dot, which no name does.
func anchor(e Entry) string { return e.Scenario }

// allowed is what the checks of an entry allow the service to lose; empty if none limits it.
func allowed(e Entry) string {
	var wants []string
	for _, v := range e.Verdicts {
		if v.Want != "" && !slices.Contains(wants, v.Want) && slices.Contains(v.Kind().IDs(), verdict.IDOfDNSLost) {
			wants = append(wants, v.Want)
		}
	}
	return strings.Join(wants, "; ")
}

// checkIDs are the ids of an entry's verdicts on the page, in their order: scenario/check, in lower case, with
// dashes between the words.
func checkIDs(e Entry) []string {
	ids := make([]string, len(e.Verdicts))
	times := map[string]int{}
	for i, v := range e.Verdicts {
		words := strings.FieldsFunc(strings.ToLower(v.Check), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		ids[i] = anchor(e) + "/" + strings.Join(words, "-")
		times[ids[i]]++
		if times[ids[i]] > 1 {
			ids[i] += fmt.Sprintf("-%d", times[ids[i]])
		}
	}
	return ids
}

// sign and word show an outcome without colour.
func sign(o verdict.Outcome) string {
	return map[verdict.Outcome]string{verdict.Pass: "✓", verdict.Fail: "✕", verdict.Unknown: "?", verdict.Skipped: "–"}[o.Known()]
}

func word(o verdict.Outcome) string { return string(o.Known()) }
