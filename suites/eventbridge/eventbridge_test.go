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

func specs() {
	Describe("The rules of "+cmp.Or(*rulesFlag, "the stack"), Ordered, ContinueOnFailure, func() {
		var (
			table    = events(time.Now())
			arrivals map[string][]cloud.Envelope // by the id that EventBridge gave
			ids      map[string]string           // by the event's name
			report   *reports.Report
			folder   reports.Folder
			policy   verdict.Verdict
			aws      *cloud.AWS
			console  = reports.NewConsole(os.Stderr, len(table)+1+len(troubles()))
			started  = time.Now()
		)

		BeforeAll(func(ctx SpecContext) {
			template, err := readTemplate(*rulesFlag)
			Expect(err).NotTo(HaveOccurred())
			folder, err = reports.NewFolder(*outFlag, started)
			Expect(err).NotTo(HaveOccurred())
			var stop func(context.Context) error
			aws, stop, err = system.LocalStack(ctx, system.Options{
				Cluster: network, Source: ".",
				Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
			})
			Expect(err).NotTo(HaveOccurred(), "start LocalStack")
			DeferCleanup(func(ctx SpecContext) { Expect(stop(ctx)).To(Succeed()) }, NodeTimeout(finishTimeout))
			version := "built in"
			if template == "" {
				err = aws.DeployStack(ctx, network)
			} else {
				version = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(template)))
				err = aws.DeployTemplate(ctx, network, template)
			}
			Expect(err).NotTo(HaveOccurred())
			report = reports.New(folder, reports.Handler{Name: "rules", Version: version}, scenarios.Fast, nil)
			report.Timings.Setup = reports.Seconds(time.Since(started))
			policy, err = judgePolicy(ctx, aws)
			Expect(err).NotTo(HaveOccurred())
			ids, arrivals, err = putAndCollect(ctx, aws, table)
			Expect(err).NotTo(HaveOccurred())
		}, NodeTimeout(setUpTimeout))

		AfterAll(func() {
			if report == nil {
				return
			}
			report.Timings.Drills = reports.Seconds(time.Since(started)) - report.Timings.Setup
			written := folder.Write(report)
			console.Summary(report)
			Expect(written).To(Succeed())
		})

		judged := func(name, title string, found verdict.Verdict) {
			console.Begin(name)
			entry := reports.NewEntry(verdict.Result{
				Scenario: name, Title: title, Profile: profile, Attempt: 1, Outcome: found.Outcome, Verdicts: []verdict.Verdict{found},
			})
			console.End(entry)
			report.Add(entry)
			Expect(found.Outcome).To(Equal(verdict.Pass), found.Got)
		}
		It("queue-policy", Label("profile:"+profile, "queue-policy"), func() { judged("queue-policy", "The queue's policy lets EventBridge send to it", policy) })
		for _, e := range table {
			It(e.name, Label(e.labels()...), func() { judged(e.name, e.title(), e.judge(ids[e.name], arrivals[ids[e.name]])) })
		}
		for _, trouble := range troubles() {
			It(trouble.name, Label("profile:"+profile, trouble.name), func(ctx SpecContext) {
				judged(trouble.name, trouble.title, trouble.judge(ctx, aws))
			}, NodeTimeout(troubleTimeout))
		}
	})
}

// judgePolicy checks what LocalStack ignores: whether the queue's policy allows what the
// rules match.
func judgePolicy(ctx context.Context, aws *cloud.AWS) (verdict.Verdict, error) {
	v := verdict.New(verdict.QueuePolicy, "sqs:SendMessage on the queue allowed to events.amazonaws.com")
	v.Outcome, v.Got = verdict.Pass, "allowed"
	refused, err := aws.RefusesEventBridge(ctx)
	if refused != "" {
		v.Outcome, v.Got = verdict.Fail, refused
	}
	return v, err
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
func putAndCollect(ctx context.Context, aws *cloud.AWS, table []event) (ids map[string]string, arrivals map[string][]cloud.Envelope, err error) {
	ids, arrivals = map[string]string{}, map[string][]cloud.Envelope{}
	missing := map[string]bool{}
	for _, wanted := range []bool{false, true} {
		for _, e := range table {
			if e.arrives != wanted {
				continue
			}
			put, err := aws.PutEvents(ctx, []cloud.Envelope{e.envelope})
			if err != nil {
				return nil, nil, fmt.Errorf("put %s: %w", e.name, err)
			}
			ids[e.name] = put[0]
			missing[put[0]] = wanted
		}
	}
	deadline, last := time.Now().Add(arrivalTimeout), time.Now()
	for time.Since(last) < quiet || anyTrue(missing) && time.Now().Before(deadline) {
		bodies, err := aws.Take(ctx, time.Second)
		if err != nil {
			return nil, nil, err
		}
		for _, body := range bodies {
			last = time.Now()
			envelope := parse(body)
			arrivals[envelope.ID] = append(arrivals[envelope.ID], envelope)
			missing[envelope.ID] = false
		}
	}
	return ids, arrivals, nil
}

func anyTrue(m map[string]bool) bool {
	for _, v := range m {
		if v {
			return true
		}
	}
	return false
}
