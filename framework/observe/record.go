package observe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	// calm is for how long DNS must answer everything before anything begins, and calmWithin
	// by when.
	calm       = 3 * time.Second
	calmWithin = 20 * time.Second
	// printEvery is the time between two lines of progress if no line can be replaced.
	printEvery = 30 * time.Second
	// settledWithin bounds the wait for DNS to answer again after the end.
	settledWithin = time.Minute
)

// ErrBrokenBefore means that DNS lost queries before anything began, so that nothing was begun.
var ErrBrokenBefore = errors.New("DNS was broken before anything began")

// ErrTooLong ends what takes longer than the observation may.
var ErrTooLong = errors.New("it took longer than it may")

// errLost ends what is observed.
var errLost = errors.New("more queries were lost than --abort-lost allows")

// Observation is what is in the cluster, ready to be recorded.
type Observation struct {
	Options
	Load    Load
	Probers int
	// Limit is how long what is observed may take.
	Limit time.Duration
	// Scenario is that of the options with the load of the probers and the gates.
	Scenario scenarios.Scenario
	// Environment is the cluster's.
	Environment map[string]string

	most   time.Duration // how long queries may come on record
	waits  atomic.Value  // what settling waits for, as text
	placed *placed
	direct []netip.AddrPort
	// service is that of the application, and outside why there is none to watch.
	service   *corev1.Service
	outside   string
	recorders recorders
	die       context.CancelFunc // lets the keeper end
}

// Prepare starts the probers, which do not query yet. Remove the observation also if it fails.
func (c *Cluster) Prepare(ctx context.Context, o Options) (*Observation, error) {
	obs := &Observation{Options: o}
	nodes, err := c.nodes(ctx, o.Nodes)
	if err != nil {
		return obs, err
	}
	if obs.Probers = o.Probers; obs.Probers == 0 {
		obs.Probers = len(nodes)
	}
	if obs.Probers == 0 {
		return obs, fmt.Errorf("no Ready node with Linux matches --nodes %q", o.Nodes)
	}
	if o.Settle > 0 {
		o.Scenario.Settle = strict.Duration(o.Settle)
	}
	if obs.Scenario, err = o.Scenarios.With(o.Scenario, o.probe(obs.Probers), o.Gates); err != nil {
		return obs, fmt.Errorf("%s with %d queries/s each: %w", history.Count(obs.Probers, "prober"), o.serviceRate(), err)
	}
	if obs.direct, err = c.dnsPods(ctx, o.DNS); err != nil {
		return obs, err
	}
	if obs.service, obs.outside, err = c.application(ctx, o); err != nil {
		return obs, err
	}
	if len(obs.direct) == 0 {
		return obs, fmt.Errorf("the Service %s has no ready endpoint: is that CoreDNS? Name it with --service NAMESPACE/NAME", o.DNS)
	}
	rate := obs.Probers * o.recorded(len(obs.direct))
	if obs.Limit, err = o.limit(rate); err != nil {
		return obs, err
	}
	obs.most = o.most(rate)
	obs.Environment = c.Environment(ctx)
	obs.Environment["context"] = o.Context
	withoutAccounts(obs.Environment)
	// Some 4 µs for each query, and as much again for the echo.
	cpu := fmt.Sprintf("%dm", min(20+o.serviceRate()/20, 1000))
	if obs.placed, err = c.place(ctx, o, cpu, obs.Probers); err != nil {
		return obs, err
	}
	alive, die := context.WithCancel(context.WithoutCancel(ctx))
	obs.die = die
	go obs.placed.beat(alive)
	pods, err := obs.placed.ready(ctx, obs.Probers, o.Image, obs.progress)
	if err != nil {
		return obs, err
	}
	if o.Conntrack {
		if obs.recorders, err = obs.placed.startRecorders(ctx, o, pods); err != nil {
			return obs, err
		}
	}
	direct := directRate * min(len(obs.direct), maxDirect)
	obs.Load = obs.placed.load(ctx, pods[0].Name, obs.direct, float64(obs.Probers*(o.serviceRate()+direct)))
	return obs, nil
}

// Remove removes everything of the observation from the cluster.
func (o *Observation) Remove(ctx context.Context) error {
	if o.placed == nil {
		return nil
	}
	if o.die != nil {
		defer o.die()
	}
	return o.placed.remove(ctx)
}

func (o Options) progress(text string) {
	if o.Progress != nil {
		o.Progress(text)
	}
}

// Action is what happens while DNS is observed.
type Action struct {
	// Words describe it in the record; empty if only time passes.
	Words string
	// Do does it. The end of its context means that it must end.
	Do func(context.Context, *history.Recorder) error
	// Restore, if set, puts back what Do changed, and describes what that was. It is called in any
	// case.
	Restore func(context.Context) ([]string, error)
}

// Record records the history of one observation in dir. The error is that of what was done, or of
// the recording; the history has it too.
func (o *Observation) Record(ctx context.Context, dir string, meta history.Meta, action Action) error {
	meta.Scenario, meta.Environment = o.Scenario.Name, o.Environment
	rec, err := history.Create(dir, history.NewClock(), meta)
	if err != nil {
		return err
	}
	r := &recorder{Recorder: rec}
	done := o.record(ctx, r, action)
	return errors.Join(done, r.close())
}

// recorder writes a history that is complete unless something failed.
type recorder struct {
	*history.Recorder
	failed bool
}

func (r *recorder) fail(err error) error {
	r.failed = true
	r.Record(history.NewRunError(oneLine(err)))
	return err
}

func (r *recorder) close() error { return r.Close(!r.failed) }

func (o *Observation) record(ctx context.Context, rec *recorder, action Action) error {
	rec.Record(history.Arrange.Begins())
	probers := newProbers(o.placed, o.Options, rec.Recorder, o.direct)
	stop, err := o.sources(rec.Recorder, probers, action.Restore == nil).Start(ctx)
	if err != nil {
		return o.restore(ctx, rec, action, rec.fail(err))
	}
	done := o.middle(ctx, rec, probers, action)
	end := func() error {
		if err := stop(ctx); err != nil {
			return rec.fail(err)
		}
		return nil
	}
	if errors.Is(done, errLost) { // what was changed is put back before anything else
		return errors.Join(o.restore(ctx, rec, action, done), end())
	}
	return o.restore(ctx, rec, action, errors.Join(done, end()))
}

func (o *Observation) sources(rec *history.Recorder, probers *probers, gaps bool) recording.Sources {
	return recording.Sources{
		Watch: func(ctx context.Context) (recording.Watching, error) {
			watcher, err := recording.Watch(ctx, o.placed.Clientset, rec, o.scope(ctx, gaps))
			if err != nil {
				return recording.Watching{}, err
			}
			complete := func(ctx context.Context) error { return watcher.Complete(context.WithoutCancel(ctx)) }
			return recording.Watching{Complete: complete, Stop: watcher.Stop}, nil
		},
		Streams: []recording.Start{func(ctx context.Context) (recording.Stop, error) {
			following, stopFollowing := context.WithCancel(ctx)
			followed := make(chan struct{})
			go func() { defer close(followed); probers.follow(following) }()
			return func(ctx context.Context) error {
				stopFollowing()
				<-followed
				return errors.Join(probers.stop(ctx), probers.collectFlows(ctx, o.recorders))
			}, nil
		}},
	}
}

// middle waits until DNS answers, does what is to be done, and waits until DNS answers again.
func (o *Observation) middle(ctx context.Context, rec *recorder, probers *probers, action Action) error {
	if err := o.awaitCalm(ctx, rec, probers); err != nil {
		rec.Record(history.Steps.Begins())
		rec.Record(history.Settle.Begins())
		return rec.fail(err)
	}
	rec.Record(history.Steps.Begins())
	began := rec.Clock().Now()
	rec.Record(history.NewObservationBegun(action.Words))
	if o.outside != "" {
		rec.Record(history.NewTargetFound("", history.Application, o.Application, history.Note(o.outside)))
	}
	watching, end := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); o.watchLosses(watching, rec, end) }()
	defer func() { end(nil); <-watched }()
	doing, cancel := context.WithTimeoutCause(watching, o.Limit, ErrTooLong)
	defer cancel()
	err := action.Do(doing, rec.Recorder)
	numbers := history.Numbers{history.Took: (rec.Clock().Now() - began).Seconds()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		numbers[history.ExitCode] = float64(exit.ExitCode())
	}
	rec.Record(history.NewObservationEnded(history.With(numbers)))
	if err != nil && exit == nil && watching.Err() == nil {
		err = rec.fail(err)
	}
	rec.Record(history.Settle.Begins())
	o.settle(watching, rec, began)
	switch {
	case errors.Is(context.Cause(watching), errLost):
		return rec.fail(errLost)
	case ctx.Err() != nil:
		return rec.fail(errors.New("interrupted before its end"))
	}
	return err
}

// awaitCalm waits until all probers query, and DNS answers everything for a while.
func (o *Observation) awaitCalm(ctx context.Context, rec *recorder, probers *probers) error {
	err := wait.Until(ctx, calmWithin, fmt.Sprintf("DNS to answer everything for %s", calm), func(context.Context) string {
		asked, lost := rec.Counts()
		o.progress(fmt.Sprintf("querying: %s, %d lost", history.Count(asked, "query"), lost))
		switch {
		case probers.begun() < o.Probers:
			return fmt.Sprintf("%d of %s query", probers.begun(), history.Count(o.Probers, "prober"))
		case rec.AnsweredFor() < calm:
			return fmt.Sprintf("%d of %s lost", lost, history.Count(asked, "query"))
		}
		return ""
	})
	if asked, lost := rec.Counts(); err != nil && lost > 0 && ctx.Err() == nil {
		return fmt.Errorf("%w: %d of %s lost in %s, and nothing was begun", ErrBrokenBefore, lost, history.Count(asked, "query"), calmWithin)
	}
	return err
}

// watchLosses ends what is done once too much is lost, and shows how it goes on.
func (o *Observation) watchLosses(ctx context.Context, rec *recorder, end context.CancelCauseFunc) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	start := time.Now()
	printed := start
	_, before := rec.Counts()
	for {
		asked, lost := rec.Counts()
		text := fmt.Sprintf("observing for %s: %s, %d lost", time.Since(start).Round(time.Second), history.Count(asked, "query"), lost)
		if settling, _ := o.waits.Load().(string); settling != "" {
			text += "; settling: " + settling
		}
		o.progress(text)
		if o.Progress == nil && time.Since(printed) >= printEvery {
			printed = time.Now()
			fmt.Fprintln(o.Console, foreign.Line(text))
		}
		if o.AbortLost > 0 && lost-before > o.AbortLost {
			end(errLost)
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// settle goes on until all that began has ended and has stayed so for the scenario's time, within the
// limit, and until DNS answers again.
func (o *Observation) settle(ctx context.Context, rec *recorder, began time.Duration) {
	settle, ended := o.Scenario.Settle.D(), rec.Clock().Now()
	limit := max(settle, min(o.SettleLimit, o.most-(ended-began)))
	_ = wait.Until(ctx, limit, "all that began to end", func(context.Context) string { // else it is unknown, by name
		now := rec.Clock().Now()
		why, since := o.Unsettled(o.Scenario, rec.SoFar(), now)
		if left := max(since, ended) + settle - now; len(why) == 0 && left > 0 {
			why = []string{fmt.Sprintf("the record goes on for %s", left.Round(time.Second))}
		}
		text := strings.Join(why, "; ")
		o.waits.Store(text)
		return text
	})
	_ = wait.Until(ctx, settledWithin, "DNS to answer again", func(context.Context) string { // else its window is open
		if rec.AnsweredFor() < time.Second {
			return "queries are lost"
		}
		return ""
	})
}

func (o *Observation) restore(ctx context.Context, rec *recorder, action Action, err error) error {
	rec.Record(history.Restore.Begins())
	if action.Restore == nil {
		return err
	}
	o.progress("putting back")
	words, failed := action.Restore(context.WithoutCancel(ctx))
	if failed != nil {
		return errors.Join(err, rec.fail(failed))
	}
	rec.Record(history.NewRestored(history.Note(strings.Join(words, ", "))))
	return err
}

// scope is what the client may watch. Where nothing is changed, the verdict rests on the queries, and
// gaps in what is watched are allowed.
func (o *Observation) scope(ctx context.Context, gaps bool) recording.Scope {
	s := recording.Scope{DNS: o.DNS, Pods: []string{o.Namespace}, Gaps: gaps}
	all := metav1.NamespaceAll
	may := func(group, resource, namespace string) bool {
		return o.placed.May(ctx, "list", group, resource, "", namespace) && o.placed.May(ctx, "watch", group, resource, "", namespace)
	}
	sees := func(namespace string) bool { return may("", "pods", namespace) }
	switch {
	case sees(all):
		s.Pods = []string{all}
	case o.DNS.Namespace != o.Namespace && sees(o.DNS.Namespace):
		s.Pods = append(s.Pods, o.DNS.Namespace)
	}
	s.Rollouts = may("apps", "deployments", o.DNS.Namespace) && may("apps", "daemonsets", o.DNS.Namespace)
	if app := o.service; app != nil {
		s.Application, s.As, s.Selector = types.NamespacedName{Namespace: app.Namespace, Name: app.Name}, scenarios.App, app.Spec.Selector
	}
	s.Events = may("", "events", all)
	s.DNSLogs = o.placed.May(ctx, "get", "", "pods", "log", o.DNS.Namespace)
	return s
}
