// Package reproduce plays the track record: bugs of released software, in a version that
// has the bug and in one that does not.
package reproduce

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
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
	"github.com/spotdrill/spotdrill/suites/reproduce/trackrecord"
)

// What a run reads and writes, relative to the checkout.
const (
	folder = "suites/reproduce"
	record = folder + "/record.yaml"
	page   = "docs/track-record.md"
)

// tonight is the --issue that picks two cases by the day.
const (
	tonight = "tonight"
	nightly = 2
)

// playTimeout bounds one play of a version, with its attempts and the start of what it
// runs on; building an image has the time of a set-up.
const playTimeout = session.MaxAttempts * 4 * time.Minute

var (
	drillFlag   = flags.AddDrill()
	systemFlags = flags.AddSystem()
	outFlag     = flags.AddOut("reports/out/reproduce")
	issueFlag   = flag.String("issue", "", "case to reproduce, such as NTH#1277; tonight: two, by the day; empty: all")
)

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "reproduce")
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	all, err := trackrecord.Load(root, folder)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose(all, *issueFlag, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if chosen, err = labels.Selected(chosen, labelsOf); err != nil {
		t.Fatal(err)
	}
	builtin, err := handler.Load("builtin")
	if err != nil {
		t.Fatal(err)
	}
	run, err := systemFlags.Session(root, session.Options{Handler: builtin, Set: scenarios.Fast, Out: *outFlag})
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{session: run, all: all, chosen: chosen}
	s.specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill track record")
}

// choose picks the cases that --issue names.
func choose(all []trackrecord.Case, issue string, now time.Time) ([]trackrecord.Case, error) {
	switch issue {
	case "":
		return all, nil
	case tonight:
		return trackrecord.Tonight(all, now.UTC().YearDay(), nightly), nil
	}
	c, err := trackrecord.Named(all, issue)
	if err != nil {
		return nil, fmt.Errorf("--issue: %w", err)
	}
	return []trackrecord.Case{c}, nil
}

// labelsOf are the labels of the case's scenario, with its issue, program and check.
func labelsOf(c trackrecord.Case) []string {
	return append(labels.Of(c.Drill), "issue:"+c.Issue, "program:"+string(c.Program), "check:"+string(c.Red.Check))
}

// suite is one run over the cases.
type suite struct {
	session *session.Session
	all     []trackrecord.Case
	chosen  []trackrecord.Case
}

func (s *suite) specs() {
	BeforeSuite(func(ctx SpecContext) {
		Expect(s.session.SetUp(ctx)).To(Succeed())
		Expect(s.session.NoSystem()).To(BeEmpty(), "set-up")
	}, NodeTimeout(session.SetUpTimeout))
	AfterSuite(func(ctx SpecContext) { Expect(s.session.Restore(ctx)).To(Succeed()) }, NodeTimeout(session.FinishTimeout))
	ReportAfterSuite("JUnit report", func(ginkgo Report) {
		if folder := s.session.Folder(); folder != "" {
			Expect(reporters.GenerateJUnitReport(ginkgo, filepath.Join(folder, reports.JUnitFile))).To(Succeed())
		}
	})
	var bugs []TableEntry
	for _, c := range s.chosen {
		timeout := 2*session.SetUpTimeout + time.Duration(2*c.Plays)*playTimeout
		bugs = append(bugs, Entry(c.Issue+": "+c.Bug, Label(labelsOf(c)...), NodeTimeout(timeout), c))
	}
	DescribeTable("A bug of released software is reproduced", Ordered, ContinueOnFailure, func(ctx SpecContext, c trackrecord.Case) {
		fate, saw, err := s.reproduce(ctx, c)
		if err != nil {
			saw = err.Error()
		}
		GinkgoWriter.Printf("%s %s: %s\n", fate, c.Issue, saw)
		Expect(err).NotTo(HaveOccurred())
		Expect(fate.Is()).To(BeTrue(), "%s: %s", fate, saw)
	}, bugs)
}

// reproduce plays the broken version, which must fail by the case's check, and then the
// fixed one, which must pass. Only a reproduction is recorded.
func (s *suite) reproduce(ctx context.Context, c trackrecord.Case) (trackrecord.Fate, string, error) {
	broken, err := s.plays(ctx, c, c.Broken)
	if err != nil {
		return trackrecord.NotJudged, broken.Saw, err
	}
	var fixed *trackrecord.Play
	if broken.Color == trackrecord.Red && c.Fixed != "" {
		played, err := s.plays(ctx, c, c.Fixed)
		if err != nil {
			return trackrecord.NotJudged, played.Saw, err
		}
		fixed = &played
	}
	fate, saw := c.Fate(broken, fixed)
	if !fate.Is() {
		return fate, saw, nil
	}
	was, err := trackrecord.ReadRecord(record)
	if err != nil {
		return fate, saw, err
	}
	env := s.session.Report().Environment
	now, err := was.Write(record, trackrecord.Row{
		Issue: c.Issue, Date: time.Now().UTC().Format(time.DateOnly), Digest: c.Drill.Digest(), Broken: broken, Fixed: fixed,
		On: fmt.Sprintf("Kubernetes %s, kernel %s, %s cores", env["kubernetes"], env["kernel"], env["cores"]),
	})
	if err != nil {
		return fate, saw, err
	}
	return fate, saw, trackrecord.WriteTable(page, s.all, now)
}

// plays plays one version of the case's program until its color is certain.
func (s *suite) plays(ctx context.Context, c trackrecord.Case, version string) (p trackrecord.Play, err error) {
	p, started := trackrecord.Play{Version: version}, time.Now()
	defer func() { p.Seconds = time.Since(started).Round(time.Second).Seconds() }()
	under, err := c.Handler(version)
	if err != nil {
		return p, err
	}
	release, inCluster := c.Release(version)
	GinkgoWriter.Printf("%s: %s\n", c.Issue, release)
	if inCluster {
		defer func() { err = errors.Join(err, s.session.Running().RestoreReleases(context.WithoutCancel(ctx))) }()
		if err := s.session.Running().UseRelease(ctx, release); err != nil {
			return p, err
		}
	}
	for first := true; first || c.Next(p, version == c.Broken); first = false {
		name := filepath.Join(strings.NewReplacer("#", "-", "/", "-").Replace(c.Issue), version, fmt.Sprintf("play-%d", p.Plays+1))
		entry, err := s.play(ctx, c, name, under)
		if err != nil {
			return p, fmt.Errorf("%s: %w", release, err)
		}
		color, saw := c.Judge(entry.Result)
		p = p.Add(color, saw)
		GinkgoWriter.Printf("  %s: %s in play %d of at most %d: %s\n", release, color, p.Plays, c.Plays, saw)
	}
	return p, nil
}

func (s *suite) play(ctx context.Context, c trackrecord.Case, name string, under handler.Description) (reports.Entry, error) {
	entry, err := s.session.Attempts(ctx, name, c.Drill, under)
	if err == nil && entry.Outcome == verdict.Skipped {
		err = errors.New("the scenario does not apply")
	}
	return entry, err
}
