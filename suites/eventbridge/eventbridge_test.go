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
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/iam"
	"github.com/spotdrill/spotdrill/framework/logic"
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

// profile groups these requirements in the reports.
const profile = "EVENTBRIDGE"

var (
	drillFlag      = flags.AddDrill()
	outFlag        = flags.AddOut("reports/out/eventbridge")
	rulesFlag      = flag.String("rules", "", "CloudFormation template with a queue and rules, JSON or YAML; empty: the one that drills use")
	queueFlag      = flag.String("queue", "", "resource of the template that is the queue under test; empty: the one that the rules send to")
	wantFlag       = flag.String("want", "", "notices that must get to the queue, by comma: "+strings.Join(history.Words(history.NoticeTypes()), ", ")+", or how these begin; empty: the first five. Others are not judged")
	parametersFlag = flags.AddParameters()
)

// network is that of LocalStack; drills have another one, so that both can exist.
const network = "spotdrill-rules"

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "eventbridge")
	// What cannot be tested is refused before LocalStack is started.
	s, err := newSuite(options{*rulesFlag, *queueFlag, *wantFlag, parametersFlag})
	if err != nil {
		fmt.Fprintf(os.Stderr, "nothing was tested: %v\n", err)
		t.FailNow()
	}
	s.specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill eventbridge")
}

// options are the flags.
type options struct {
	rules, queue, want string
	parameters         map[string]string
}

// requirement is something that the rules and the queue must keep.
type requirement struct {
	name, title string
	labels      []string
	judge       func(context.Context) verdict.Verdict
}

// suite is one run over the requirements.
type suite struct {
	version  string // of the rules
	builtIn  bool   // the rules are those of the stack that drills use
	template cloud.Template
	table    []event
	aws      *cloud.AWS
	failed   error                       // why the set-up failed
	ids      map[string]string           // by the event's name
	arrivals map[string][]cloud.Envelope // by the id that EventBridge gave
	started  time.Time
	played   map[string]bool // by the requirement's name
	report   *reports.Report
	console  *reports.Console
}

// newSuite reads the template and what is wanted of it.
func newSuite(o options) (*suite, error) {
	wanted, err := parseWant(o.want)
	if err != nil {
		return nil, fmt.Errorf("--want: %w", err)
	}
	s := &suite{version: "built in", builtIn: o.rules == "", table: events(time.Now(), wanted), started: time.Now(), played: map[string]bool{}}
	text := []byte(cloud.StackTemplate())
	if !s.builtIn {
		if text, err = os.ReadFile(o.rules); err != nil {
			return nil, fmt.Errorf("--rules: %w", err)
		}
		s.version = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	}
	s.template, err = cloud.ReadTemplate(text, cloud.TemplateOptions{Cluster: network, Parameters: o.parameters, Queue: o.queue})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmp.Or(o.rules, "the stack"), err)
	}
	return s, nil
}

func (s *suite) specs() {
	requirements := s.requirements()
	s.console = reports.NewConsole(os.Stderr, len(requirements))
	s.console.Note(s.template.String())
	if silent := s.template.Silent(); silent != "" {
		s.console.Note("not deployed: " + silent)
	}
	BeforeSuite(func(ctx SpecContext) {
		if s.failed = s.setUp(ctx); s.failed != nil {
			s.console.Note("set-up failed: " + s.failed.Error())
			Fail(s.failed.Error())
		}
	}, NodeTimeout(setUpTimeout+2*s.template.Delay))
	ReportAfterSuite("reports", func(Report) { s.write(requirements) })
	var entries []TableEntry
	for _, c := range requirements {
		entries = append(entries, Entry(c.name, Label(c.labels...), NodeTimeout(s.requirementTimeout()), c))
	}
	DescribeTable("The rules of "+cmp.Or(*rulesFlag, "the stack")+" keep", Ordered, ContinueOnFailure, s.play, entries)
}

// setUp starts LocalStack, deploys the rules, puts the events and takes what arrives.
func (s *suite) setUp(ctx context.Context) error {
	folder, err := reports.NewFolder(*outFlag, s.started)
	if err != nil {
		return err
	}
	s.report = reports.New(folder, reports.Handler{Name: "rules", Version: s.version}, scenarios.Fast, nil)
	var stop func(context.Context) error
	s.aws, stop, err = system.LocalStack(ctx, system.Options{
		Cluster: network, Source: ".",
		Log: func(format string, args ...any) { GinkgoWriter.Printf(format+"\n", args...) },
	})
	if err != nil {
		return fmt.Errorf("start LocalStack: %w", err)
	}
	DeferCleanup(func(ctx SpecContext) { Expect(stop(ctx)).To(Succeed()) }, NodeTimeout(finishTimeout))
	if s.builtIn {
		err = s.aws.DeployStack(ctx, network)
	} else {
		err = s.aws.DeployTemplate(ctx, network, s.template)
	}
	if err != nil {
		return err
	}
	s.report.Timings.Setup = reports.Seconds(time.Since(s.started))
	return s.putAndCollect(ctx)
}

// requirements are the policies of the queue and its key, what becomes of each event, and the troubles.
func (s *suite) requirements() []requirement {
	of := []string{"profile:" + profile}
	t := s.template
	all := []requirement{
		{"queue-policy", "The queue's policy lets EventBridge send to it", append(of, "queue-policy"), func(context.Context) verdict.Verdict {
			return decided(verdict.QueuePolicy, "sqs:SendMessage on the queue allowed to events.amazonaws.com, for each rule", t.Queue.Lets(t.Rules))
		}},
		{"queue-encryption", "The queue's encryption lets EventBridge send to it", append(of, "queue-encryption"), func(context.Context) verdict.Verdict {
			return decided(verdict.QueueEncryption, "no key that EventBridge may not use", t.Queue.Encrypts(t.Rules))
		}},
	}
	for _, e := range s.table {
		all = append(all, requirement{e.name, e.title(), e.labels(), func(context.Context) verdict.Verdict {
			return e.judge(s.ids[e.name], s.arrivals[s.ids[e.name]], t.Silent())
		}})
	}
	for _, trouble := range troubles(t) {
		all = append(all, requirement{trouble.name, trouble.title, append(of, trouble.name), func(ctx context.Context) verdict.Verdict { return trouble.judge(ctx, s.aws) }})
	}
	return all
}

func (s *suite) play(ctx SpecContext, c requirement) {
	s.console.Begin(c.name, 0)
	found := c.judge(ctx)
	entry := c.entry(found)
	s.played[c.name] = true
	s.console.End(entry)
	s.report.Add(entry)
	if found.Outcome == verdict.Skipped {
		Skip(found.Got)
	}
	Expect(found.Outcome).To(Equal(verdict.Pass), found.Got)
}

// write writes the reports that CI reads. What was not played because the set-up failed is unknown, with
// the reason.
func (s *suite) write(requirements []requirement) {
	if s.report == nil {
		return
	}
	if s.failed != nil {
		for _, c := range requirements {
			if !s.played[c.name] {
				v := verdict.New(verdict.Arrival, "a set-up that succeeds")
				v.Outcome, v.Got = verdict.Unknown, "the set-up failed: "+s.failed.Error()
				s.report.Add(c.entry(v))
			}
		}
	}
	s.report.Timings.Drills = reports.Seconds(time.Since(s.started)) - s.report.Timings.Setup
	written := s.report.Folder().Write(s.report)
	s.console.Summary(s.report)
	Expect(written).To(Succeed())
}

// entry is that of a requirement in the report.
func (c requirement) entry(found verdict.Verdict) reports.Entry {
	return reports.NewEntry(verdict.Result{
		Scenario: c.name, Title: c.title, Profile: profile, Attempt: 1, Outcome: found.Outcome, Verdicts: []verdict.Verdict{found},
	})
}

// decided is the verdict on what AWS enforces and LocalStack ignores.
func decided(id verdict.ID, want string, d iam.Decision) verdict.Verdict {
	v := verdict.New(id, want)
	v.Got = d.Why
	switch d.Is {
	case logic.Yes:
		v.Outcome = verdict.Pass
	case logic.No:
		v.Outcome = verdict.Fail
	default:
		v.Outcome = verdict.Unknown
	}
	return v
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
	deadline := time.Now().Add(arrivalTimeout + s.template.Delay)
	var err error
	s.arrivals, err = collect(ctx, s.aws, s.template.Delay, func(arrivals map[string][]cloud.Envelope) bool {
		missing := slices.ContainsFunc(awaited, func(id string) bool { return arrivals[id] == nil })
		return !missing || time.Now().After(deadline)
	})
	return err
}

// collect takes what gets to the queue, by id, until nothing more comes and until done. Messages are hidden
// for the queue's delay at first.
func collect(ctx context.Context, aws *cloud.AWS, delay time.Duration, done func(map[string][]cloud.Envelope) bool) (map[string][]cloud.Envelope, error) {
	begun := time.Now()
	arrivals, last := map[string][]cloud.Envelope{}, begun
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
			return time.Since(last) >= quiet && time.Since(begun) >= quiet+delay && done(arrivals), nil
		}).WithTimeout(collectTimeout+delay).Should(BeTrue(), "messages kept coming")
	})
	return arrivals, err
}
