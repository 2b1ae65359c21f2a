// Package eventbridge checks the rules that feed an interruption queue: each event that
// a handler must get arrives once, and nothing else does. It needs LocalStack and no
// cluster.
package eventbridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
	"github.com/spotdrill/spotdrill/suites/flags"
)

// Limits of the suite.
const (
	setUpTimeout  = 15 * time.Minute // LocalStack's image may have to be built
	finishTimeout = 2 * time.Minute
	// arrivalTimeout is how long the events that must arrive may take; LocalStack
	// delivers in tens of milliseconds.
	arrivalTimeout = 20 * time.Second
	// collectTimeout bounds a queue to which messages never stop coming.
	collectTimeout = 2 * time.Minute
	// quiet is how long the queue must stay empty until a missing event counts as absent.
	quiet = 3 * time.Second
)

// profile groups these clauses in the reports.
const profile = "EVENTBRIDGE"

var (
	drillFlag = flags.AddDrill()
	outFlag   = flags.AddOut("reports/out/eventbridge")
	rulesFlag = flag.String("rules", "", "CloudFormation template with a queue and rules; empty: the one that drills use")
)

// network is that of LocalStack; drills have another one, so that both can exist.
const network = "spotdrill-rules"

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "eventbridge")
	specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill eventbridge")
}

// clause is something that the rules and the queue must keep.
type clause struct {
	name, title string
	labels      []string
	judge       func(context.Context) verdict.Verdict
}

// suite is one run over the clauses.
type suite struct {
	table    []event
	aws      *cloud.AWS
	ids      map[string]string           // by the event's name
	arrivals map[string][]cloud.Envelope // by the id that EventBridge gave
	started  time.Time
	report   *reports.Report
	console  *reports.Console
}

func specs() {
	s := &suite{table: events(time.Now()), started: time.Now()}
	clauses := s.clauses()
	s.console = reports.NewConsole(os.Stderr, len(clauses))
	BeforeSuite(s.setUp, NodeTimeout(setUpTimeout))
	ReportAfterSuite("reports", func(Report) { s.write() })
	var entries []TableEntry
	for _, c := range clauses {
		entries = append(entries, Entry(c.name, Label(c.labels...), NodeTimeout(clauseTimeout), c))
	}
	DescribeTable("The rules of "+cmp.Or(*rulesFlag, "the stack")+" keep", Ordered, ContinueOnFailure, s.play, entries)
}

func (s *suite) setUp(ctx SpecContext) {
	template, err := readTemplate(*rulesFlag)
	Expect(err).NotTo(HaveOccurred())
	folder, err := reports.NewFolder(*outFlag, s.started)
	Expect(err).NotTo(HaveOccurred())
	var stop func(context.Context) error
	s.aws, stop, err = system.LocalStack(ctx, system.Options{
		Cluster: network, Source: ".",
		Log: func(format string, args ...any) { GinkgoWriter.Printf(format+"\n", args...) },
	})
	Expect(err).NotTo(HaveOccurred(), "start LocalStack")
	DeferCleanup(func(ctx SpecContext) { Expect(stop(ctx)).To(Succeed()) }, NodeTimeout(finishTimeout))
	version := "built in"
	if template == "" {
		err = s.aws.DeployStack(ctx, network)
	} else {
		version = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(template)))
		err = s.aws.DeployTemplate(ctx, network, template)
	}
	Expect(err).NotTo(HaveOccurred())
	s.report = reports.New(folder, reports.Handler{Name: "rules", Version: version}, scenarios.Fast, nil)
	s.report.Timings.Setup = reports.Seconds(time.Since(s.started))
	Expect(s.putAndCollect(ctx)).To(Succeed())
}

// clauses are the policy of the queue, what becomes of each event, and the troubles.
func (s *suite) clauses() []clause {
	const policy = "queue-policy"
	all := []clause{{policy, "The queue's policy lets EventBridge send to it", []string{"profile:" + profile, policy}, func(ctx context.Context) verdict.Verdict { return judgePolicy(ctx, s.aws) }}}
	for _, e := range s.table {
		all = append(all, clause{e.name, e.title(), e.labels(), func(context.Context) verdict.Verdict { return e.judge(s.ids[e.name], s.arrivals[s.ids[e.name]]) }})
	}
	for _, t := range troubles() {
		all = append(all, clause{t.name, t.title, []string{"profile:" + profile, t.name}, func(ctx context.Context) verdict.Verdict { return t.judge(ctx, s.aws) }})
	}
	return all
}

func (s *suite) play(ctx SpecContext, c clause) {
	s.console.Begin(c.name)
	found := c.judge(ctx)
	entry := reports.NewEntry(verdict.Result{
		Scenario: c.name, Title: c.title, Profile: profile, Attempt: 1, Outcome: found.Outcome, Verdicts: []verdict.Verdict{found},
	})
	s.console.End(entry)
	s.report.Add(entry)
	Expect(found.Outcome).To(Equal(verdict.Pass), found.Got)
}

// write writes the reports that CI reads.
func (s *suite) write() {
	if s.report == nil {
		return
	}
	s.report.Timings.Drills = reports.Seconds(time.Since(s.started)) - s.report.Timings.Setup
	written := s.report.Folder().Write(s.report)
	s.console.Summary(s.report)
	Expect(written).To(Succeed())
}

// judgePolicy checks what LocalStack ignores: whether the queue's policy allows what the
// rules match.
func judgePolicy(ctx context.Context, aws *cloud.AWS) verdict.Verdict {
	v := verdict.New(verdict.QueuePolicy, "sqs:SendMessage on the queue allowed to events.amazonaws.com")
	v.Outcome, v.Got = verdict.Pass, "allowed"
	refused, err := aws.RefusesEventBridge(ctx)
	switch {
	case err != nil:
		v.Outcome, v.Got = verdict.Unknown, err.Error()
	case refused != "":
		v.Outcome, v.Got = verdict.Fail, refused
	}
	return v
}

// readTemplate reads the user's template; without one it is empty.
func readTemplate(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--rules: %w", err)
	}
	return string(text), nil
}

// putAndCollect puts all events, last those that must arrive, and takes what gets to the
// queue until all of these have arrived and nothing more comes.
func (s *suite) putAndCollect(ctx context.Context) error {
	s.ids = map[string]string{}
	var awaited []string
	for _, wanted := range []bool{false, true} {
		for _, e := range s.table {
			if e.arrives != wanted {
				continue
			}
			put, err := s.aws.PutEvents(ctx, []cloud.Envelope{e.envelope})
			if err != nil {
				return fmt.Errorf("put %s: %w", e.name, err)
			}
			s.ids[e.name] = put[0]
			if wanted {
				awaited = append(awaited, put[0])
			}
		}
	}
	deadline := time.Now().Add(arrivalTimeout)
	var err error
	s.arrivals, err = collect(ctx, s.aws, func(arrivals map[string][]cloud.Envelope) bool {
		missing := slices.ContainsFunc(awaited, func(id string) bool { return arrivals[id] == nil })
		return !missing || time.Now().After(deadline)
	})
	return err
}

// collect takes what gets to the queue, by id, until nothing more comes and until done.
func collect(ctx context.Context, aws *cloud.AWS, done func(map[string][]cloud.Envelope) bool) (map[string][]cloud.Envelope, error) {
	arrivals, last := map[string][]cloud.Envelope{}, time.Now()
	err := InterceptGomegaFailure(func() {
		Eventually(ctx, func() (bool, error) {
			bodies, err := aws.Take(ctx, time.Second)
			if err != nil {
				return false, StopTrying("the queue cannot be read").Wrap(err)
			}
			for _, body := range bodies {
				envelope := parse(body)
				arrivals[envelope.ID] = append(arrivals[envelope.ID], envelope)
				last = time.Now()
			}
			return time.Since(last) >= quiet && done(arrivals), nil
		}).WithTimeout(collectTimeout).Should(BeTrue(), "messages kept coming")
	})
	return arrivals, err
}
