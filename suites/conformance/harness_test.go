package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive,staticcheck // Ginkgo specs read as they are meant to
	"github.com/onsi/gomega/gcustom"
	"github.com/onsi/gomega/types"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Limits of the suite; a drill takes one to four minutes, and three attempts at
// the most.
const (
	setUpTimeout  = 40 * time.Minute // images may have to be built
	finishTimeout = 6 * time.Minute
)

// idleScenario is what the self-check plays with a handler that does nothing.
const idleScenario = "spot-notice-drains-node"

// conformance is one run of the suite.
type conformance struct {
	handler   handler.Description
	set       scenarios.Set
	scenarios []scenarios.Scenario
	opts      run.Options
	out       string

	system  *run.System
	folder  reports.Folder
	report  *reports.Report
	console *reports.Console
	started time.Time
	drills  time.Time // the first drill's start
	noImage string    // why the handler cannot be drilled here, or ""
}

func newConformance(under handler.Description, set scenarios.Set, chosen []scenarios.Scenario, opts run.Options, out string) *conformance {
	c := &conformance{handler: under, set: set, scenarios: chosen, opts: opts, out: out, started: time.Now()}
	total := len(chosen)
	if c.noSelfCheck() == "" {
		total++
	}
	c.console = reports.NewConsole(os.Stderr, total)
	return c
}

// checkDeviations is an error where the description names a clause that is
// neither in the catalogue nor among the chosen ones.
func checkDeviations(under handler.Description, chosen []scenarios.Scenario) error {
	all, err := scenarios.Catalogue()
	if err != nil {
		return err
	}
	var clauses []string
	for _, s := range append(all, chosen...) {
		clauses = append(clauses, s.Name)
	}
	return under.CheckDeviations(clauses)
}

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// setUp brings the system up. A report is begun before, so that a set-up that
// fails leaves one that says so.
func (c *conformance) setUp(ctx SpecContext) {
	var err error
	c.folder, err = reports.NewFolder(c.out, c.started)
	must("make the run's folder", err)
	c.report = reports.New(c.folder, reports.Handler{Name: c.handler.Name, Version: c.handler.Version}, c.set, nil)
	c.opts.Log("setting the system up (about 10 min where images must be built, else less than a minute)")
	c.system, err = run.Up(ctx, c.opts)
	must("set-up", err)
	err = c.system.Provide(ctx, c.handler, *imageFlag)
	// In a description of one's own the reference may as well be misspelt.
	if errors.Is(err, run.ErrNoImage) && c.handler.Embedded() {
		c.noImage, err = err.Error(), nil
	}
	must("set-up: the handler's image", err)
	c.report.Environment = c.system.Environment
	c.report.Handler.Version = c.system.Meta(c.handler).Version
	c.report.Timings.Setup = reports.Seconds(time.Since(c.started))
	c.opts.Log("set-up took %.0f s; the drills ask for about %.0f s", time.Since(c.started).Seconds(), c.expected().Seconds())
	c.drills = time.Now()
}

func (c *conformance) expected() time.Duration {
	total := time.Duration(0)
	for _, s := range c.scenarios {
		total += expected(s, c.set)
	}
	return total
}

// expected is what the scenario asks for, and what arranging and restoring
// usually take.
func expected(s scenarios.Scenario, set scenarios.Set) time.Duration {
	const around = 12 * time.Second
	return s.Expected(set) + around
}

// finish puts everything back and writes what there is, however the run ended.
func (c *conformance) finish(ctx SpecContext) {
	if c.report == nil {
		return
	}
	if !c.drills.IsZero() {
		c.report.Timings.Drills = reports.Seconds(time.Since(c.drills))
	}
	for _, s := range c.scenarios[len(c.report.Results):] {
		c.report.Add(reports.NewEntry(verdict.NotRun(s, "the run ended before it"), history.History{}))
	}
	written := c.folder.Write(c.report)
	c.console.Summary(c.report)
	if c.system != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
		defer cancel()
		c.opts.Log("putting the cluster back as it was made")
		must("put the cluster back", c.system.Finish(ctx))
	}
	must("write the reports", written)
}

// must fails the spec with an error that users can read.
func must(doing string, err error) {
	GinkgoHelper()
	if err != nil {
		Fail(fmt.Sprintf("%s: %v", doing, err))
	}
}

// notApplicable says why the scenario is not played with the handler, or "".
func (c *conformance) notApplicable(s scenarios.Scenario) string {
	if c.noImage != "" {
		return c.noImage
	}
	if s.Handler == scenarios.HandlerNone || s.Feature == "" || c.handler.Claims(s.Feature) {
		return ""
	}
	return fmt.Sprintf("not supported: the description of %s does not claim %s", c.handler.Name, s.Feature)
}

func (c *conformance) skipped(s scenarios.Scenario, reason string) {
	entry := reports.NewEntry(verdict.Skip(s, reason), history.History{})
	c.console.Begin(s.Name)
	c.console.End(entry)
	c.report.Add(entry)
}

// drill plays and judges one scenario, reports it, and returns its result. A
// drill whose control failed is played again, and the last attempt counts.
func (c *conformance) drill(ctx context.Context, s scenarios.Scenario) verdict.Result {
	c.console.Begin(s.Name)
	entry, err := c.play(ctx, c.folder, s, c.handler)
	c.report.Add(entry)
	c.console.End(entry)
	if err != nil {
		if dead := c.system.Alive(ctx); dead != nil {
			AbortSuite(fmt.Sprintf("the run ends here: %v", dead))
		}
	}
	must("drill", err)
	return entry.Result
}

func (c *conformance) play(ctx context.Context, folder reports.Folder, s scenarios.Scenario, under handler.Description) (reports.Entry, error) {
	start := time.Now()
	for attempt := 1; ; attempt++ {
		entry, err := c.attempt(ctx, folder, s, under, attempt)
		entry.Attempts = attempt
		entry.Expected, entry.Measured = reports.Seconds(expected(s, c.set)), reports.Seconds(time.Since(start))
		if err != nil || attempt == attempts || !verdict.NeedsRerun(entry.Result) {
			return entry, err
		}
		c.console.Note(fmt.Sprintf("attempt %d could not be judged, playing it again: %s", attempt, noise(entry.Result)))
	}
}

func noise(r verdict.Result) string {
	for _, v := range r.Verdicts {
		if v.Noise {
			return v.Check + ": " + v.Got
		}
	}
	return "noise"
}

// attempt plays a scenario once. The error is the harness's own; the entry says
// it too.
func (c *conformance) attempt(ctx context.Context, folder reports.Folder, s scenarios.Scenario, under handler.Description, attempt int) (reports.Entry, error) {
	dir, err := folder.Attempt(s, attempt)
	if err != nil {
		return reports.NewEntry(verdict.NotRun(s, err.Error()), history.History{}), err
	}
	played := c.system.Play(ctx, run.Drill{Scenario: s, Set: c.set, Handler: under, Attempt: attempt, Dir: dir})
	h, err := history.Load(dir)
	if err != nil {
		return reports.NewEntry(verdict.NotRun(s, err.Error()), history.History{}), err
	}
	entry := reports.NewEntry(verdict.Judge(s, h), h)
	entry.History = folder.Relative(dir)
	return entry, played
}

// noSelfCheck says why the self-check is not played: it needs its scenario in
// the run, and a handler of ours to compare with.
func (c *conformance) noSelfCheck() string {
	if c.handler.Name != "builtin" {
		return "the self-check goes with the built-in handler"
	}
	for _, s := range c.scenarios {
		if s.Name == idleScenario {
			return ""
		}
	}
	return "the run does not include " + idleScenario
}

// selfCheck plays a scenario with a handler that never reads the queue.
func (c *conformance) selfCheck(ctx context.Context) verdict.Result {
	idle, err := handler.Load(filepath.Join("testdata", "idle", "handler.yaml"))
	must("load the idle handler", err)
	chosen, err := scenarios.Select(c.set, []string{idleScenario})
	must("find "+idleScenario, err)
	folder := c.folder
	folder.Path = filepath.Join(folder.Path, "self-check")
	c.console.Begin("self-check: a handler that does nothing")
	entry, err := c.play(ctx, folder, chosen[0], idle)
	must("drill", err)
	if entry.Outcome == verdict.Fail {
		c.console.Note(fmt.Sprintf("fails %s, as it must, after %.0f s", idleScenario, time.Duration(entry.Measured).Seconds()))
	} else {
		c.console.End(entry)
	}
	return entry.Result
}

// passed matches a result that is a pass, and tells what is not otherwise.
func passed() types.GomegaMatcher {
	return gcustom.MakeMatcher(func(r verdict.Result) (bool, error) {
		return r.Outcome == verdict.Pass, nil
	}).WithTemplate("{{.Actual.Scenario}} is {{.Actual.Outcome}}; the findings stand above, and in the reports")
}
