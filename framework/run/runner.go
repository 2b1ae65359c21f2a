package run

import (
	"context"
	"embed"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/imds"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

const poll = 100 * time.Millisecond

//go:embed manifests
var manifests embed.FS

// Playing is a drill that is being played.
type Playing = runner

// runner plays one drill.
type runner struct {
	Drill
	sys       *system.System
	rec       *history.Recorder
	beside    []*runner               // those that play at the same time
	namespace string                  // of its workload
	nodes     map[string]cluster.Node // by the scenario's names
	notices   map[string]*sent        // by the step's name
	// launched are the handler's objects of the nodes that it had launched at the beginning.
	launched []handler.WorkerObject
	// requests are what the handler requested of the API server in this drill.
	requests func(context.Context) (recording.Requests, error)
	probers  []probing // none without a probe
	// broken gets why a stream of records ended early; it has room for all.
	broken chan error
	// announced is what the metadata of each node announces, by the node's name.
	announced map[string]imds.Announced
	// meanwhile are disturbances that the steps do not wait for.
	meanwhile errgroup.Group
	// stopScaling ends the scaling of CoreDNS with the cluster; nil if there is none.
	stopScaling func() error
}

// sent is what a notice or message step put into the queue.
type sent struct {
	notices, messages []string      // ids
	put, deadline     time.Duration // of a notice
}

// newRunner begins a drill's history.
func newRunner(sys *system.System, d Drill) (*runner, error) {
	if d.handler().ReadsMetadata() {
		d.Scenario = d.Scenario.WithoutQueue()
	}
	meta := history.Meta{
		Scenario: d.Scenario.Name, Set: string(d.Set), Attempt: d.Attempt,
		Handler: sys.Meta(d.Handlers[0]), Environment: sys.Environment,
	}
	for _, other := range d.Handlers[1:] {
		meta.Other = new(sys.Meta(other))
	}
	rec, err := history.Create(d.Dir, history.NewClock(), meta)
	if err != nil {
		return nil, err
	}
	return &runner{
		sys: sys, Drill: d, rec: rec, namespace: sys.WorkloadNamespace(),
		nodes: map[string]cluster.Node{}, notices: map[string]*sent{}, announced: map[string]imds.Announced{}, broken: make(chan error, 3+scenarios.MaxProbers),
	}, nil
}

// announce records an event and passes it on as progress.
func (r *runner) announce(e history.Event) {
	r.rec.Record(e)
	if r.Progress != nil {
		r.Progress(e)
	}
}

// Recorder is what records the drill.
func (r *runner) Recorder() *history.Recorder { return r.rec }

// create creates the objects of one of the manifests.
func (r *runner) create(ctx context.Context, file string, values map[string]string) error {
	return r.sys.Cluster.Objects().Create(ctx, manifests, "manifests/"+file, values)
}

// targets are the nodes that the scenario acts on.
func (r *runner) targets() []string {
	var out []string
	for _, name := range r.Scenario.Targets() {
		out = append(out, r.nodes[name].Name)
	}
	return out
}

// sources are what the drill is recorded from.
func (r *runner) sources() recording.Sources {
	return recording.Sources{
		Watch: func(ctx context.Context) (recording.Watching, error) {
			var services []types.NamespacedName
			if r.application() {
				services = append(services, types.NamespacedName{Namespace: r.namespace, Name: scenarios.App})
			}
			watcher, err := recording.Watch(ctx, r.sys.Cluster.Clientset, r.rec, recording.Everything(services...))
			if err != nil {
				return recording.Watching{}, err
			}
			stopLaunches := r.sys.RecordLaunches(r.rec.Record)
			return recording.Watching{Complete: watcher.Complete, Stop: func() { stopLaunches(); watcher.Stop() }}, nil
		},
		Facts:   r.recordFacts,
		Streams: []recording.Start{r.recordWaits, r.recordQueue, r.recordProbers},
		Last:    r.recordLast,
	}
}

// recordFacts records the nodes' roles, what belongs to the drill next to this one, the
// handler's rights and the budgets.
func (r *runner) recordFacts(ctx context.Context) error {
	for name, n := range r.nodes {
		r.rec.Record(history.NewNodeRole(name, n.Name, history.Instance(n.Instance)))
	}
	for _, o := range r.beside {
		r.recordBeside(o, history.Pod(o.namespace))
		for _, node := range o.targets() {
			r.recordBeside(o, history.Node(node))
		}
	}
	r.recordPrepared()
	if err := r.recordRights(ctx); err != nil {
		return err
	}
	var err error
	if r.launched, err = r.sys.InCluster(r.under()).LaunchedObjects(ctx); err != nil {
		return err
	}
	for _, budget := range r.Scenario.Workload.Budgets {
		r.recordBudget(r.rec.Clock().Now(), budget.Pods, "", budget.MinAvailable)
	}
	return nil
}

// recordLast ends what goes on next to the steps, and records what is known only at the end: what is left in the queue, and what was
// read of the nodes' metadata.
func (r *runner) recordLast(ctx context.Context) error {
	return errors.Join(r.endScaling(), r.recordDepth(ctx), r.recordAllMetadata(ctx))
}

func (r *runner) recordDepth(ctx context.Context) error {
	visible, invisible, err := r.sys.AWS.Depth(ctx)
	if err != nil {
		return err
	}
	r.rec.Record(history.NewQueueDepth(history.With(history.Numbers{history.Visible: float64(visible), history.Invisible: float64(invisible)})))
	return nil
}

// recordBeside records that something belongs to another drill.
func (r *runner) recordBeside(o *runner, what history.Detail) {
	r.rec.Record(history.NewRunBeside(o.Scenario.Name, what))
}

// recordOwn records, in the drills next to this one, that something belongs to this one.
func (r *runner) recordOwn(what history.Detail) {
	for _, o := range r.beside {
		o.recordBeside(r, what)
	}
}
