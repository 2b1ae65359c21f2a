package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Drill is one scenario to be played.
type Drill struct {
	Scenario scenarios.Scenario
	Set      scenarios.Set
	// Handlers are the installations of the drill: first that of the handler under test, then those
	// of the handlers that run next to it.
	Handlers []system.Installation
	Attempt  int    // from 1
	Dir      string // where the history goes

	// Progress, if set, gets every phase that begins and every notice with its
	// deadline, as they are recorded. It must return at once.
	Progress func(history.Event)
}

// under is the installation of the handler under test.
func (d Drill) under() *system.Installation { return &d.Handlers[0] }

// handler is the one under test.
func (d Drill) handler() handler.Description { return d.Handlers[0].Handler }

// application reports whether the probers request the workload's Service.
func (d Drill) application() bool {
	return d.Scenario.Probe != nil && d.Scenario.Probe.Application != nil
}

// drill is a Drill that is being played: its record, and what all of its parts need to know.
type drill struct {
	Drill
	*history.Recorder
	namespace string                  // of its workload
	lane      string                  // in which it is played, or empty
	image     string                  // the product's own, as the nodes know it
	nodes     map[string]cluster.Node // by the scenario's names
	fleet     []cluster.Node          // its virtual nodes
	sent      map[string]*sent        // by the step's name
	alongside []*drill                // those that are played at the same time
	// broken gets why a stream of records ended early; it has room for all.
	broken chan error
	// meanwhile is what the steps do not wait for.
	meanwhile errgroup.Group
}

// sent is what a notice or message step put into the queue.
type sent struct {
	notices, messages []string      // ids
	put, deadline     time.Duration // of a notice or of the last message
}

// now is the time since the history began.
func (d *drill) now() time.Duration { return d.Clock().Now() }

// announce records an event and passes it on as progress.
func (d *drill) announce(e history.Event) {
	d.Record(e)
	if d.Progress != nil {
		d.Progress(e)
	}
}

// recorded reports whether the history has an event of that kind and key.
func (d *drill) recorded(kind history.Kind, key string) bool {
	return slices.ContainsFunc(d.Events(), func(e history.Event) bool { return e.Kind == kind && e.Step() == key })
}

// recordBeside records that something belongs to another drill.
func (d *drill) recordBeside(o *drill, of history.Detail) {
	d.Record(history.NewConcurrentDrill(o.Scenario.Name, of))
}

// recordOwn records, in the drills next to this one, that something belongs to this one.
func (d *drill) recordOwn(of history.Detail) {
	for _, o := range d.alongside {
		o.recordBeside(d, of)
	}
}

// recordUnsent records a notice about a node's instance for which no message is sent.
func (d *drill) recordUnsent(n scenarios.Notice, node cluster.Node, at time.Duration) {
	deadline := at + d.Scenario.Deadline.For(d.Set)
	d.sent[n.Name] = &sent{put: at, deadline: deadline}
	d.announce(history.NewNoticePut(n.Name, n.Type, node.Name, history.At(at), history.Until(deadline), history.Instance(node.Instance)))
}

// targets are the nodes that the scenario acts on.
func (d *drill) targets() []string {
	var out []string
	for _, name := range d.Scenario.Targets() {
		out = append(out, d.nodes[name].Name)
	}
	return out
}

// otherTarget is the target of the drill next to this one, "" without one: a pod that moved
// there would be evicted a second time.
func (d *drill) otherTarget() string {
	for _, o := range d.alongside {
		for _, node := range o.targets() {
			return node
		}
	}
	return ""
}

// sleep waits for a time; 0 does not wait.
func (d *drill) sleep(ctx context.Context, t time.Duration) error {
	if t <= 0 {
		return nil
	}
	return d.Sleep(ctx, d.now()+t)
}

// Sleep waits for an offset of the history, unless a stream of records ends first.
func (d *drill) Sleep(ctx context.Context, until time.Duration) error {
	timer := time.NewTimer(until - d.now())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case err := <-d.broken:
		return err
	case <-timer.C:
		return nil
	}
}

// collect takes a stream into the history in the background. An error that breaks the
// stream off also ends the steps; ended gets it.
func (d *drill) collect(of string, stream func() error) (ended <-chan error) {
	done := make(chan error, 1)
	go func() {
		err := stream()
		if err != nil {
			err = fmt.Errorf("the record of %s broke off: %w", of, err)
			d.broken <- err
		}
		done <- err
	}()
	return done
}

// StopTimeout bounds the end of the recording, also after a Ctrl-C.
const StopTimeout = recording.StopTimeout

// inParallel does the same to all items at once. The first error cancels the others.
func inParallel[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	return group.Wait()
}
