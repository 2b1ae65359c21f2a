package reports

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

var pages = flag.String("pages", "", "write the pages of the tests into this folder, for a browser")

// render is a report's page, with all that its script draws.
func render(t testing.TB, name string, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	keep(t, name, b.Bytes())
	return unpacked(t, b.String())
}

// keep writes a page into the folder that a browser test names, if the page has a name.
func keep(t testing.TB, name string, page []byte) {
	t.Helper()
	if *pages == "" || name == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*pages, name+".html"), page, 0o644); err != nil {
		t.Fatal(err)
	}
}

var packedPart = regexp.MustCompile(`data-packed="([^"]*)"></div>`)

// unpacked is a page with all that its script draws when it is needed.
func unpacked(t testing.TB, page string) string {
	t.Helper()
	return packedPart.ReplaceAllStringFunc(page, func(part string) string {
		data, err := base64.URLEncoding.DecodeString(packedPart.FindStringSubmatch(part)[1])
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return ">" + string(text) + "</div>"
	})
}

// played is a drained CoreDNS pod at the rates of a real drill, for that long.
// Queries of the window are lost at fresh ports.
type played struct {
	length, from, window time.Duration
	rate                 int // queries a second at fresh ports; half at fixed, a fifth at the control
	unsent               bool
	pod                  string
}

// entry judges the drill by the scenario of the saved run.
func (p played) entry(t testing.TB) Entry {
	t.Helper()
	s, err := verdict.Scenarios().LoadFile(filepath.Join("testdata", savedScenario+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.Probe = &scenarios.Probe{Fresh: p.rate, Fixed: p.rate / 2, Control: p.rate / 5}
	h := p.history(s)
	return NewEntry(verdict.Judge(s, h))
}

func (p played) history(s scenarios.Scenario) history.History {
	h := history.History{Complete: true, Meta: history.Meta{
		Format: history.FormatV1, Scenario: s.Name, Set: "fast", Attempt: 1,
		Handler: history.Handler{Name: "builtin", Version: "0.1.0", Unschedulable: true, Taint: "karpenter.sh/disrupted"},
	}}
	at := func(seconds float64, e history.Event) {
		e.At, e.Seq = sec(seconds), len(h.Events)+1
		h.Events = append(h.Events, e)
	}
	pod := func(seconds float64, kind history.Kind, name, node, owner string) {
		e := history.NewPodCreated(name, "uid-"+name, "", history.Node(node), history.Owner(owner))
		e.Kind = kind
		at(seconds, e)
	}
	dns, fresh := "kube-system/"+p.pod, "kube-system/coredns-new"
	end := p.length.Seconds()
	until := sec(end - 5)
	at(0.1, history.NewNodeRole("victim", "w-1", history.Instance("i-1")))
	at(0.2, history.NewNodePresent("w-1", "spot"))
	at(0.2, history.NewNodePresent("w-2", "spot"))
	at(0.2, history.NewNodePresent("cp", "control-plane"))
	pod(0.3, history.PodPresent, dns, "w-1", "ReplicaSet/coredns")
	h.Events[len(h.Events)-1].IP = "10.0.0.1"
	h.Flows = []history.Flow{
		{Port: 40000, Backend: "10.0.0.2", From: sec(0.4)},
		{Port: 40001, Backend: "10.0.0.1", From: sec(0.4), To: sec(end - 5), Removed: true},
	}
	pod(0.3, history.PodPresent, "kube-system/coredns-stays", "cp", "ReplicaSet/coredns")
	pod(0.3, history.PodPresent, "default/app", "w-1", "ReplicaSet/app")
	at(0.4, history.NewEndpointReady("", dns, "10.0.0.1"))
	at(0.4, history.NewEndpointReady("", "kube-system/coredns-stays", "10.0.0.2"))
	at(0.5, history.Steps.Begins())
	at(3, history.NewNoticePut("reclaim", "spot-interruption", "w-1", history.Notice("n-1"), history.Instance("i-1"), history.Until(until)))
	at(3.02, history.NewSQSReceived("", "m-1", "n-1"))
	at(3.1, history.NewNodeCordoned("w-1"))
	at(3.1, history.NewNodeTainted("w-1", "karpenter.sh/disrupted", "NoSchedule"))
	at(3.15, history.NewSQSDeleted("", "m-1", "n-1"))
	at(3.2, history.NewClusterEvent("Node", "Draining", history.Node("w-1"), history.Owner("builtin")))
	for _, name := range []string{"default/app", dns} {
		at(3.3, history.NewPodEvicted(name, "uid-"+name, "EvictionByEvictionAPI", history.Node("w-1"), history.Owner(map[bool]string{true: "ReplicaSet/app", false: "ReplicaSet/coredns"}[name == "default/app"])))
		at(3.31, history.NewPodTerminating(name, "uid-"+name, history.Node("w-1"), history.With(history.Numbers{history.Grace: 30})))
	}
	at(3.33, history.NewEndpointTerminating("", dns, "10.0.0.1", true))
	at(3.33, history.NewEndpointNotReady("", dns, "10.0.0.1", history.Conditions{Serving: true, Terminating: true}))
	pod(3.4, history.PodCreated, fresh, "", "ReplicaSet/coredns")
	pod(3.5, history.PodScheduled, fresh, "w-2", "ReplicaSet/coredns")
	pod(3.6, history.PodCreated, "default/app-new", "", "ReplicaSet/app")
	pod(4.4, history.PodExited, "default/app", "w-1", "ReplicaSet/app")
	pod(4.6, history.PodDeleted, "default/app", "w-1", "ReplicaSet/app")
	pod(5.1, history.PodReady, "default/app-new", "w-2", "ReplicaSet/app")
	pod(6.2, history.PodReady, fresh, "w-2", "ReplicaSet/coredns")
	at(6.25, history.NewEndpointReady("", fresh, "10.0.0.3"))
	pod(8.4, history.PodExited, dns, "w-1", "ReplicaSet/coredns")
	at(8.41, history.NewEndpointTerminating("", dns, "10.0.0.1", false))
	pod(8.6, history.PodDeleted, dns, "w-1", "ReplicaSet/coredns")
	at(8.61, history.NewEndpointGone("", dns, "10.0.0.1"))
	at(end-5, history.NewReclaimed("w-1"))
	at(end-4.9, history.Settle.Begins())
	unsent := 0
	for _, stream := range []struct {
		target string
		mode   history.Mode
		rate   int
	}{{history.Service, history.Fresh, p.rate}, {history.Service, history.Fixed, p.rate / 2}, {history.Control, history.Fresh, p.rate / 5}} {
		interval := time.Second / time.Duration(stream.rate)
		for intended := sec(0.5); intended < p.length; intended += interval {
			q := history.Query{Target: stream.target, Mode: stream.mode, Port: 40000, Intended: intended, Sent: intended, Done: intended + time.Millisecond, Outcome: history.Answered}
			inside := intended >= p.from && intended < p.from+p.window
			switch {
			case inside && p.unsent:
				q.Outcome = history.Unsent
				unsent++
			case inside && stream.mode == history.Fresh && stream.target == history.Service && (intended/interval)%2 == 0:
				q.Port, q.Outcome = 40001, history.Timeout
			}
			h.Queries = append(h.Queries, q)
		}
	}
	at(end+0.2, history.NewProberEnded("", history.With(history.Numbers{history.Asked: float64(len(h.Queries)), history.UnsentQueries: float64(unsent), history.LateP99: 0.001, history.LateMax: 0.002})))
	at(end+0.3, history.NewQueueDepth(history.With(history.Numbers{history.Visible: 0, history.Invisible: 0})))
	at(end+0.3, history.Restore.Begins())
	at(end+9, history.NewRestored())
	at(end+9, history.NewRunEnded())
	return h
}

// aRun is a report of drills of that scenario.
func aRun(entries ...Entry) *Report {
	r := New(Folder{Path: "reports/out/20260102-150405", Run: "20260102-150405", started: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)},
		Handler{Name: "builtin", Version: "0.1.0"}, scenarios.Fast, map[string]string{"kubernetes": "v1.37.0", "kube-proxy": "iptables", "cores": "2"})
	for i, e := range entries {
		if i > 0 {
			e.Scenario = fmt.Sprintf("%s-%d", e.Scenario, i+1)
		}
		r.Add(e)
	}
	return r
}

func aDrill() played { return played{length: 30 * time.Second, rate: 1000, pod: "coredns-old"} }

func aFailedDrill() played {
	p := aDrill()
	p.from, p.window = sec(8.4), sec(1.3)
	return p
}

func anUnknownDrill() played {
	p := aFailedDrill()
	p.unsent = true
	return p
}

func TestThePageShowsWhatHappened(t *testing.T) {
	for name, c := range map[string]struct {
		entry Entry
		want  []string
	}{
		"pass":    {aDrill().entry(t), []string{`<span class="verdict">pass</span>`, "1 passed", "0 of 28000"}},
		"fail":    {aFailedDrill().entry(t), []string{`<span class="verdict">fail</span>`, "1 failed", "dns lost (fresh):", "1,299 ms", "wanted at most 0 queries lost"}},
		"unknown": {anUnknownDrill().entry(t), []string{`<span class="verdict">unknown</span>`, "1 unknown", "never left", "this machine was too busy"}},
	} {
		t.Run(name, func(t *testing.T) {
			page := render(t, name, aRun(c.entry))
			for _, part := range append(c.want, "builtin 0.1.0", "v1.37.0", "iptables") {
				if !strings.Contains(page, part) {
					t.Errorf("the page does not show %q", part)
				}
			}
		})
	}
}

func TestAnOutageIsNextToItsCounterpart(t *testing.T) {
	outage, held := aFailedDrill().entry(t), aDrill().entry(t)
	outage.Counterpart = outage.Scenario + "-2" // the name of the second
	page := render(t, "pair", aRun(outage, held))
	for _, part := range []string{"Side by side", "650 of 28000 lost, longest window <b>1,299 ms</b>", "0 of 28000 lost</small>"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not show %q", part)
		}
	}
	if page := render(t, "", aRun(outage)); strings.Contains(page, "Side by side") {
		t.Error("a drill is next to one that was not played")
	}
}

// own matches what is the same in every page: its style, script and policy.
var own = regexp.MustCompile(`(?s)(<style>).*?(</style>)|(<script>).*?(</script>)|(&#39;sha256-).*?(&#39;)`)

func TestThePagesStructure(t *testing.T) {
	page := render(t, "sample", sampleReport())
	golden(t, "report.html", []byte(own.ReplaceAllString(page, "$1$3$5…$2$4$6")))
	drill := render(t, "", aRun(aFailedDrill().entry(t)))
	golden(t, "drill.html", []byte(own.ReplaceAllString(drill, "$1$3$5…$2$4$6")))
}

// Everything from a cluster, a handler or a scenario is shown as text, whatever it
// contains.
func TestHostileNamesStayTextOnThePage(t *testing.T) {
	staysText(t, render(t, "hostile", hostileReport(t)))
}

// hostileReport has texts that would do something on a page that takes them for markup.
func hostileReport(t *testing.T) *Report {
	t.Helper()
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'</style></title>{{.}}javascript:alert(3)`
	e := func() Entry {
		p := aFailedDrill()
		p.pod = hostile
		e := p.entry(t)
		e.Scenario, e.Title, e.History = hostile, hostile, hostile
		for i := range e.Verdicts {
			e.Verdicts[i].Check, e.Verdicts[i].Want, e.Verdicts[i].Got = hostile, hostile, hostile
		}
		e.Verdicts[0].Outcome = verdict.Fail
		return e
	}()
	r := aRun(e)
	r.Handler = Handler{Name: hostile, Version: hostile}
	r.Run = hostile
	r.Environment = map[string]string{hostile: hostile, "kubernetes": hostile}
	return r
}

func staysText(t *testing.T, page string) {
	t.Helper()
	page = own.ReplaceAllString(page, "")
	if !strings.Contains(page, "alert(1)") {
		t.Error("the page does not show the hostile text")
	}
	for _, bad := range []string{"<script>", "<img", "</style>", `href="javascript:`, "onerror=alert(2)>"} {
		if strings.Contains(page, bad) {
			i := strings.Index(page, bad)
			t.Errorf("the page holds %q: …%s…", bad, page[max(0, i-120):i+len(bad)+20])
		}
	}
}

// A published report has no histories. Its page and its JUnit report show what report.yaml has.
func TestPagesOfPublishedReports(t *testing.T) {
	for _, r := range publishedReports(t) {
		name := "published-" + r.Handler.Name
		page := render(t, name, r)
		missing := r.Missing()
		if missing == "" || !strings.Contains(page, missing) || strings.Contains(page, "Judge again") {
			t.Errorf("%s: the page does not show what is missing: %q", name, missing)
		}
		for _, e := range r.Results {
			if !strings.Contains(page, `id="`+anchor(e)+`"`) {
				t.Errorf("%s: the page lacks %s", name, e.Scenario)
			}
		}
		var b bytes.Buffer
		if err := r.WriteJUnit(&b); err != nil || strings.Count(b.String(), "<testcase ") != len(r.Results) {
			t.Errorf("%s: JUnit lacks some of %d drills, %v", name, len(r.Results), err)
		}
		if *pages != "" {
			if err := os.WriteFile(filepath.Join(*pages, name+".xml"), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The page must not load anything, and its policy forbids it.
func TestThePageIsSelfContained(t *testing.T) {
	page := render(t, "", aRun(aFailedDrill().entry(t)))
	if !strings.Contains(page, `content="default-src &#39;none&#39;;`) {
		t.Error("the page has no policy")
	}
	if found := regexp.MustCompile(`(src|href)="(https?:)?//|url\(|@import`).FindString(page); found != "" {
		t.Errorf("the page loads something: %s", found)
	}
}

func TestAMillionQueriesMakeASmallPage(t *testing.T) {
	p := played{length: 150 * time.Second, from: sec(10), window: sec(45), rate: 4000, pod: "coredns-old"}
	s, err := verdict.Scenarios().LoadFile(filepath.Join("testdata", savedScenario+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.Probe = &scenarios.Probe{Fresh: p.rate, Fixed: p.rate / 2, Control: p.rate / 5}
	h := p.history(s)
	if len(h.Queries) < 1e6 {
		t.Fatalf("only %d queries", len(h.Queries))
	}
	result := verdict.Judge(s, h)
	start := time.Now()
	r := aRun(NewEntry(result))
	page := render(t, "million", r)
	took := time.Since(start)
	t.Logf("%d queries: %d bytes in %s", len(h.Queries), len(page), took)
	if len(page) > 5<<20 {
		t.Errorf("%d bytes", len(page))
	}
	if took > 10*time.Second { // a fraction of a second without the race detector
		t.Errorf("took %s", took)
	}
}

// A night's run of the full set, as large as the recorded drills are, weighs little: what is drawn only when a drill
// is opened is compressed, each drill by itself. So a page of each recorded drill shows what more of them weigh.
func TestThePageOfTheFullSetIsSmall(t *testing.T) {
	const drills, most = 224, 3_000_000
	names := corpusNames(t)
	entries := make([]Entry, len(names))
	if *pages != "" { // a browser opens all of it
		entries = make([]Entry, drills)
	}
	for i := range entries {
		entries[i] = recordingOf(t, names[i%len(names)]).judged()
		entries[i].Scenario = fmt.Sprintf("%s-%d", entries[i].Scenario, i)
	}
	weighs := func(entries ...Entry) int {
		var page bytes.Buffer
		if err := aRun(entries...).WriteHTML(&page); err != nil {
			t.Fatal(err)
		}
		keep(t, "full", page.Bytes())
		return page.Len()
	}
	empty, all := weighs(), weighs(entries...)
	full := empty + (all-empty)*drills/len(entries)
	t.Logf("%d drills: %d bytes, so %d: %d bytes", len(entries), all, drills, full)
	if full > most {
		t.Errorf("%d drills make a page of %d bytes, want at most %d", drills, full, most)
	}
}

// A link to a drill or a check can be written by hand, and is the same in every run.
func TestEachDrillAndCheckHasAnAddress(t *testing.T) {
	e := aFailedDrill().entry(t)
	e.Verdicts = append(e.Verdicts, e.Verdicts[0]) // a check of the same name
	page := render(t, "", aRun(e, aDrill().entry(t)))
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[id[1]] {
			t.Errorf("two elements with the id %q", id[1])
		}
		ids[id[1]] = true
	}
	for _, id := range []string{"dns-lost-at-exit", "dns-lost-at-exit/marked-victim", "dns-lost-at-exit/marked-victim-2", "dns-lost-at-exit/dns-lost-fresh", "dns-lost-at-exit-2/dns-window-all", "dns-lost-at-exit/timeline-dns"} {
		if !ids[id] {
			t.Errorf("the page has no id %q", id)
		}
	}
	for _, target := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !ids[target[1]] {
			t.Errorf("a link leads to %q, which the page does not have", target[1])
		}
	}
}

// Each check that did not pass shows what to change.
func TestThePageShowsTheFix(t *testing.T) {
	for name, e := range map[string]Entry{"fail": aFailedDrill().entry(t), "unknown": anUnknownDrill().entry(t)} {
		page := html.UnescapeString(render(t, "", aRun(e)))
		for _, v := range e.Verdicts {
			if v.Outcome.Known() != verdict.Pass && !strings.Contains(page, "<dt>fix</dt><dd>"+v.Fix()+"</dd>") {
				t.Errorf("%s: %s: the fix is missing: %s", name, v.Check, v.Fix())
			}
		}
		if !strings.Contains(page, "<b>Fix:</b>") {
			t.Errorf("%s: the overview has no fix", name)
		}
	}
}

// What a drill lost within its bounds is no failure: outcome and bound are next to it.
func TestLossesHaveTheOutcomeAndTheBound(t *testing.T) {
	for _, e := range []Entry{passed(), failed()} {
		e.DNS = passed().DNS
		page := render(t, "", aRun(e))
		row := regexp.MustCompile(`(?s)<tr class="(pass|fail)">\s*<th scope="row">.*?</tr>`).FindString(page)
		want := []string{`<tr class="` + word(e.Outcome) + `">`, `<span class="word">` + word(e.Outcome) + `</span>`, "no limit"}
		if e.Outcome == verdict.Pass {
			want[2] = "at least 200ms and at most 10s long"
		}
		for _, part := range want {
			if !strings.Contains(row, part) {
				t.Errorf("%s: the row does not show %q: %s", e.Scenario, part, row)
			}
		}
	}
}

// An observation has no handler and no set. What was answered comes first, with the time of day and the nodes.
func TestThePageOfAnObservation(t *testing.T) {
	e := recordingOf(t, "observed-rollout").judged()
	r := judgedAlone(Folder{Path: "reports/out/20260102-150405", Run: "20260102-150405"}, history.Meta{Set: "full", Handler: history.Handler{Name: "none"}, Environment: map[string]string{ContextOf: "staging"}}, e)
	page := render(t, "observation", r)
	head, _, _ := strings.Cut(page, `id=".drills"`)
	for _, part := range []string{"98.72 % of 1,401 answered, 18 lost", "403 ms</b>, ", " UTC to ", "node of the prober", "<dt>Cluster</dt><dd>staging</dd>", "unknown</td>"} {
		if !strings.Contains(head, part) {
			t.Errorf("the page does not begin with %q", part)
		}
	}
	for _, part := range []string{"<dt>Handler</dt>", "<dt>Set</dt>", "(none)", "0s × 0", "first notice"} {
		if strings.Contains(page, part) {
			t.Errorf("the page shows %q", part)
		}
	}
	if at, table := strings.Index(page, "Longest window"), strings.Index(page, `<table class="matrix">`); at < 0 || at > table {
		t.Error("what was answered does not come first")
	}
}

func TestTheShareIsNeverRoundedUp(t *testing.T) {
	for want, m := range map[string]loss.Measurement{
		"100 % of 100 answered, 0 lost":           {Fresh: loss.Stream{Asked: 100}},
		"50.00 % of 4 answered, 2 lost":           {Fresh: loss.Stream{Asked: 2, Lost: 2}, Fixed: loss.Stream{Asked: 2}},
		"99.9999 % of 1,000,000 answered, 1 lost": {Fixed: loss.Stream{Asked: 1e6, Lost: 1}},
		"nothing was asked":                       {},
		"0.00 % of 7 answered, 7 lost":            {Fresh: loss.Stream{Asked: 7, Lost: 7}},
	} {
		if got := answeredShare(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
