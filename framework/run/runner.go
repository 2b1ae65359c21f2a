package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/imds"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Runner plays the steps of one drill. Each of its parts knows one part of the system: it changes
// that, and records it.
type Runner struct {
	*drill
	cluster  *cluster.Cluster
	aws      *cloud.AWS
	dns      *clusterdns.CoreDNS
	launches *system.Launches
	foreign  func(name string) bool // reports whether a node or a namespace is another lane's

	workload    workload
	probers     *probers
	waits       *waits
	handlers    *handlers
	operator    operator
	coreDNS     coreDNS
	scaling     *scaling
	metadata    metadata
	queueFaults queueFaults
	proxy       recordingProxy
}

// newRunner begins a drill's history.
func newRunner(sys *system.System, as Drill, requests func(context.Context) (recording.Requests, error)) (*Runner, error) {
	if !as.handler().ReadsQueue() {
		as.Scenario = as.Scenario.WithoutQueue()
	}
	meta := history.Meta{
		Scenario: as.Scenario.Name, Set: string(as.Set), Attempt: as.Attempt,
		Handler: sys.Handlers.Meta(as.Handlers[0]), Environment: sys.Environment,
	}
	for _, other := range as.Handlers[1:] {
		meta.Other = new(sys.Handlers.Meta(other))
	}
	rec, err := history.Create(as.Dir, history.NewClock(), meta)
	if err != nil {
		return nil, err
	}
	d := &drill{
		Drill: as, Recorder: rec, namespace: sys.WorkloadNamespace(), lane: sys.InLane(), image: sys.Image,
		nodes: map[string]cluster.Node{}, sent: map[string]*sent{}, broken: make(chan error, 3+scenarios.MaxProbers),
	}
	c, dns, own := sys.Cluster, sys.DNS, podsOfSystem(sys)
	probers := &probers{drill: d, pods: own, dns: dns, coreDNSImage: sys.Environment["coredns"]}
	namespace, _, _ := strings.Cut(meta.Handler.Deployment, "/")
	return &Runner{
		drill: d, cluster: c, aws: sys.AWS, dns: dns, launches: sys.Launches, foreign: sys.Foreign,
		workload:    workload{d, own, dns, c, addOns{d, own.Client, dns}},
		probers:     probers,
		waits:       &waits{drill: d, probers: probers, binary: sys.Binary(), handler: namespace, names: map[string]string{}},
		handlers:    &handlers{drill: d, installed: sys.Handlers, cluster: c, requests: requests, logs: map[string]recording.Stop{}},
		operator:    operator{d, c, sys.Handlers},
		coreDNS:     coreDNS{d, dns, c},
		scaling:     &scaling{drill: d, clientset: c.Clientset, dns: dns},
		metadata:    metadata{d, sys.Metadata(), c, map[string]imds.Announced{}},
		queueFaults: queueFaults{d, sys.AWS},
		proxy:       recordingProxy{d, own},
	}, nil
}

// start starts the scenario's pods and probers on the nodes that were picked.
func (r *Runner) start(ctx context.Context) error {
	if r.application() {
		// Its address must be known before.
		if err := r.workload.start(ctx); err != nil {
			return err
		}
		return r.probers.start(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.workload.start(ctx) })
	if r.Scenario.Probe != nil {
		group.Go(func() error { return r.probers.start(ctx) })
	}
	return group.Wait()
}

// sources are what the drill is recorded from.
func (r *Runner) sources() recording.Sources {
	return recording.Sources{
		Watch:   r.watch,
		Facts:   r.recordFacts,
		Streams: []recording.Start{r.waits.record, r.proxy.record, r.probers.record},
		Last:    r.recordLast,
	}
}

func (r *Runner) watch(ctx context.Context) (recording.Watching, error) {
	var services []types.NamespacedName
	if r.application() {
		services = append(services, types.NamespacedName{Namespace: r.namespace, Name: scenarios.App})
	}
	scope := recording.Everything(services...)
	scope.Foreign = r.foreign
	watcher, err := recording.Watch(ctx, r.cluster.Clientset, r.Recorder, scope)
	if err != nil {
		return recording.Watching{}, err
	}
	stopLaunches := r.launches.Record(r.Record)
	return recording.Watching{Complete: watcher.Complete, Stop: func() { stopLaunches(); watcher.Stop() }}, nil
}

// recordFacts records the nodes' roles, what belongs to the drill next to this one, the
// handler's rights and the budgets.
func (r *Runner) recordFacts(ctx context.Context) error {
	for name, n := range r.nodes {
		r.Record(history.NewNodeRole(name, n.Name, history.Instance(n.Instance)))
	}
	for i, n := range r.fleet {
		r.Record(history.NewNodeRole(fmt.Sprintf("%s%d", scenarios.FleetPrefix, i+1), n.Name, history.Instance(n.Instance)))
	}
	for _, o := range r.alongside {
		r.recordBeside(o, history.Pod(o.namespace))
		for _, node := range o.targets() {
			r.recordBeside(o, history.Node(node))
		}
	}
	r.operator.recordPrepared()
	if err := r.handlers.recordRights(ctx); err != nil {
		return err
	}
	for _, budget := range r.Scenario.Workload.Budgets {
		r.workload.recordBudget(r.now(), budget.Pods, "", budget.MinAvailable)
	}
	return nil
}

// recordLast ends the scaling of CoreDNS, and records what is known only at the end: how many
// messages are left in the queue, and what was read of the nodes' metadata.
func (r *Runner) recordLast(ctx context.Context) error {
	return errors.Join(r.scaling.end(), r.recordDepth(ctx), r.metadata.recordAll(ctx))
}

func (r *Runner) recordDepth(ctx context.Context) error {
	visible, invisible, err := r.aws.Depth(ctx)
	if err != nil {
		return err
	}
	r.Record(history.NewQueueDepth(history.With(history.Numbers{history.Visible: float64(visible), history.Invisible: float64(invisible)})))
	return nil
}

// stateFolder is where the cluster's state after a drill is saved, in the drill's folder.
const stateFolder = "state"

// saveTimeout bounds the saving of the handler's log, and that of the cluster's state:
// some of it comes from kubelets that may be gone.
const saveTimeout = 20 * time.Second

// saveState saves what a reader of a failure looks at first.
func (r *Runner) saveState(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	down, err := r.cluster.Down(ctx)
	return errors.Join(err, recording.SaveState(ctx, r.cluster.Clientset, down, filepath.Join(r.Dir, stateFolder), r.Clock().Start(), r.proxy.pods.namespace))
}
