// Package mutants shows that the scenarios catch broken handlers: it drills the
// built-in handler with each of the defects of mutants.yaml planted in it.
package mutants

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/reporters"
	. "github.com/onsi/gomega"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
	"github.com/spotdrill/spotdrill/suites/flags"
	"github.com/spotdrill/spotdrill/suites/labels"
	"github.com/spotdrill/spotdrill/suites/mutants/defects"
)

// slack is how much longer than expected an attempt may take.
const slack = 2 * time.Minute

var (
	drillFlag   = flags.AddDrill()
	systemFlags = flags.AddSystem()
	outFlag     = flags.AddOut("reports/out/mutants")
	mutantsFlag = flag.String("mutants", "", "names of mutants, separated by commas; empty: all")
)

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "mutants")
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose("suites/mutants/mutants.yaml", *mutantsFlag)
	if err != nil {
		t.Fatal(err)
	}
	if chosen, err = labels.Selected(chosen, planted.labels); err != nil {
		t.Fatal(err)
	}
	builtin, err := handler.Load("builtin")
	if err != nil {
		t.Fatal(err)
	}
	session, err := systemFlags.Session(root, session.Options{Handler: builtin, Set: scenarios.Fast, Out: *outFlag})
	if err != nil {
		t.Fatal(err)
	}
	session.System.Kwok = session.System.Kwok || slices.ContainsFunc(chosen, func(m planted) bool { return m.with != nil })
	s := &suite{session: session, root: root, mutants: chosen, dir: t.TempDir()}
	s.specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill mutants")
}

// planted is a mutant, and the scenario that must catch it.
type planted struct {
	defects.Mutant
	scenario scenarios.Scenario
	// with is played in another lane at the same time; nil if the scenario is played alone.
	with *scenarios.Scenario
}

// labels are those of the scenario, with the mutant and the check that must catch it.
func (p planted) labels() []string {
	return append(labels.Of(p.scenario), "mutant:"+p.Name, "check:"+string(p.CaughtBy.Check))
}

// choose picks mutants by name, in the order of the scenarios that catch them:
// those of a profile share the cluster's settings.
func choose(file, list string) ([]planted, error) {
	mutants, err := defects.Load(file)
	if err != nil {
		return nil, err
	}
	names := flags.Names(list)
	for _, name := range names {
		if !slices.ContainsFunc(mutants, func(m defects.Mutant) bool { return m.Name == name }) {
			return nil, fmt.Errorf("--mutants: no mutant is named %q", name)
		}
	}
	catalogue, err := verdict.Scenarios().Catalogue()
	if err != nil {
		return nil, err
	}
	var chosen []planted
	for _, scenario := range catalogue {
		for _, m := range mutants {
			if m.CaughtBy.Scenario == scenario.Name && (len(names) == 0 || slices.Contains(names, m.Name)) {
				p := planted{Mutant: m, scenario: scenario}
				if i := slices.IndexFunc(catalogue, func(s scenarios.Scenario) bool { return s.Name == m.CaughtBy.With }); i >= 0 {
					p.with = &catalogue[i]
				}
				chosen = append(chosen, p)
			}
		}
	}
	return chosen, nil
}

// suite is one run over the mutants.
type suite struct {
	session *session.Session
	root    string
	dir     string // for overlays and binaries
	mutants []planted
	rows    []row
}

// row is a line of the table that the run ends with.
type row struct {
	mutant planted
	found  defects.Fate
	got    string
	took   time.Duration
}

func (s *suite) specs() {
	BeforeSuite(s.setUp, NodeTimeout(session.SetUpTimeout))
	AfterSuite(func(ctx SpecContext) { Expect(s.session.Restore(ctx)).To(Succeed()) }, NodeTimeout(session.FinishTimeout))
	ReportAfterSuite("table and JUnit report", s.report)
	var drills []TableEntry
	for _, m := range s.mutants {
		timeout := session.MaxAttempts * (m.scenario.Expected(scenarios.Fast) + slack)
		drills = append(drills, Entry(m.Name+": "+m.Defect, Label(m.labels()...), NodeTimeout(timeout), m))
	}
	DescribeTable("The built-in handler with a planted defect is caught", Ordered, ContinueOnFailure, func(ctx SpecContext, m planted) {
		r := s.play(ctx, m)
		s.rows = append(s.rows, r)
		GinkgoWriter.Printf("[%d/%d] %s: %s in %.0f s (%s of %s: %s)\n", len(s.rows), len(s.mutants), m.Name, r.found, r.took.Seconds(), m.CaughtBy, m.CaughtBy.Scenario, r.got)
		Expect(r.found).To(Equal(defects.Caught), r.got)
	}, drills)
}

// buildProgress is how often a long build reports how far it is.
const buildProgress = 30 * time.Second

// setUp builds every mutant before the first drill: the compiler would disturb it.
func (s *suite) setUp(ctx SpecContext) {
	started, reported := time.Now(), time.Now()
	GinkgoWriter.Printf("building %d mutants (6 to 10 s each)\n", len(s.mutants))
	for i, m := range s.mutants {
		Expect(s.build(ctx, m)).To(Succeed())
		if time.Since(reported) > buildProgress {
			reported = time.Now()
			GinkgoWriter.Printf("  %d of %d built after %.0f s\n", i+1, len(s.mutants), time.Since(started).Seconds())
		}
	}
	GinkgoWriter.Printf("built %d mutants in %.0f s\n", len(s.mutants), time.Since(started).Seconds())
	Expect(s.session.SetUp(ctx)).To(Succeed())
	Expect(s.session.NoSystem()).To(BeEmpty(), "set-up")
}

// build compiles the product with the mutant's files in place of its own, as all
// else of it is compiled already.
func (s *suite) build(ctx context.Context, m planted) error {
	dir := filepath.Join(s.dir, m.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("build mutant %s: %w", m.Name, err)
	}
	overlay, err := m.Overlay(s.root, dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "make", "build", "OVERLAY="+overlay, "BINARY="+s.binary(m))
	cmd.Dir = s.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build mutant %s: %w\n%s", m.Name, err, out)
	}
	return nil
}

func (s *suite) binary(m planted) string { return filepath.Join(s.dir, m.Name, "spotdrill") }

// play drills the mutant by the scenario that must catch it.
func (s *suite) play(ctx context.Context, m planted) row {
	started := time.Now()
	found, got := s.drill(ctx, m)
	return row{mutant: m, found: found, got: got, took: time.Since(started)}
}

func (s *suite) drill(ctx context.Context, m planted) (defects.Fate, string) {
	defer func() {
		if err := s.revoke(context.WithoutCancel(ctx)); err != nil {
			GinkgoWriter.Printf("    %v\n", err)
		}
	}()
	if err := s.grant(ctx, m.Mutant); err != nil {
		return defects.NotJudged, err.Error()
	}
	under, err := handler.Load(cmp.Or(m.Handler, s.session.Handler.Name))
	if err != nil {
		return defects.NotJudged, err.Error()
	}
	under.Binary = s.binary(m)
	entry, err := s.attempt(ctx, m, under)
	found, got := m.Judge(entry.Result)
	switch {
	case err != nil && found == defects.NotJudged:
		got = err.Error()
	case err != nil:
		GinkgoWriter.Printf("    %v\n", err)
	}
	return found, got
}

// attempt plays the scenario, next to another in a lane if the defect is about that.
func (s *suite) attempt(ctx context.Context, m planted, under handler.Description) (reports.Entry, error) {
	if m.with == nil {
		return s.session.Attempts(ctx, m.Name, defects.Impatient(m.scenario), under)
	}
	entries, err := s.session.AttemptsInLanes(ctx, m.Name, under, defects.Impatient(m.scenario), defects.Impatient(*m.with))
	return entries[m.scenario.Name], err
}

// report prints and writes the table, and writes the JUnit report that CI reads.
func (s *suite) report(ginkgo Report) {
	folder := s.session.Folder()
	if folder == "" {
		return
	}
	for _, m := range s.mutants[len(s.rows):] { // the run ended before them
		s.rows = append(s.rows, row{mutant: m, found: defects.NotJudged})
	}
	file, err := os.Create(filepath.Join(folder, "table.txt"))
	Expect(err).NotTo(HaveOccurred())
	writeTable(io.MultiWriter(file, GinkgoWriter), s.rows)
	Expect(file.Close()).To(Succeed())
	GinkgoWriter.Println(file.Name())
	Expect(reporters.GenerateJUnitReport(ginkgo, filepath.Join(folder, reports.JUnitFile))).To(Succeed())
}

// writeTable writes what was found of each mutant. The last line has the counts.
func writeTable(w io.Writer, rows []row) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nMUTANT\tFOUND\tSECONDS\tSCENARIO\tCHECK")
	count := map[defects.Fate]int{}
	for _, r := range rows {
		count[r.found]++
		fmt.Fprintf(table, "%s\t%s\t%.0f\t%s\t%s\n", r.mutant.Name, r.found, r.took.Seconds(), r.mutant.CaughtBy.Scenario, r.mutant.CaughtBy)
	}
	_ = table.Flush()
	fmt.Fprintf(w, "%d caught, %d survived, %d not judged\n", count[defects.Caught], count[defects.Survived], count[defects.NotJudged])
}
