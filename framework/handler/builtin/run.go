// Package builtin is spotdrill's own interruption handler: it receives notices from an
// SQS queue and drains the nodes of the instances that they name, or it runs on each node, reads
// the metadata of its own instance, and drains that node.
//
// Like Karpenter's interruption controller
// (https://karpenter.sh/docs/concepts/disruption/#interruption) it decides which
// messages to act on and to delete, and like `kubectl drain` it evicts. Its own rules:
//
//   - A notice is settled when the drain is recorded on the node: cordon, taint and the
//     annotation spotdrill.dev/draining in one patch. Only then is its message deleted.
//     So a handler that is killed at any moment either receives the message again or
//     finds the record when it starts, and continues. A draining handler updates the
//     record every few seconds. If it stops doing so, other replicas take over.
//   - The record also identifies duplicate notices, even across replicas, because the
//     patch names the node's resourceVersion. A new notice after the end of the drain
//     drains again if pods are left. Removing the annotation, or cordon and taint,
//     restores the node: its drain ends, and the next notice drains it again.
//   - The Eviction API decides. An eviction that a PodDisruptionBudget refuses is
//     retried every second until the node is empty or gone.
//   - Critical pods (priority of system-cluster-critical and above) follow when the
//     others are gone, or after Config.CriticalAfter, whichever comes first: cluster DNS
//     should outlive its clients on the node, but needs its own share of the two minutes.
//   - Daemon, mirror and finished pods, and pods that tolerate the taint, stay.
//
// Node objects are never deleted and instances never terminated.
package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	ec2api "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// Config is the configuration of the handler.
type Config struct {
	QueueURL  string // or QueueName
	QueueName string
	Endpoint  string // of SQS; empty for AWS's own
	Region    string // empty for the AWS SDK's default chain
	Listen    string // address of /metrics, /healthz and /readyz
	Workers   int    // messages handled at the same time

	// Metadata is the URL of the instance metadata service, which is read in place of a queue. The
	// handler then drains no node but Node, which it runs on.
	Metadata, Node string

	// NodeSelector selects the nodes by their labels, such as a pool's; all others are nobody's to the handler. Empty: all nodes.
	NodeSelector string

	// CriticalAfter is how long critical pods wait until the others are gone.
	CriticalAfter time.Duration
	// DrainTimeout is when a drain is given up; 0 for never, so that a drain ends with an
	// empty, restored or deleted node.
	DrainTimeout time.Duration
	// ShutdownGrace is how long received messages and drains may continue after a stop
	// signal. Evictions that were requested by then are completed, up to 30 s later.
	ShutdownGrace time.Duration
}

func (c Config) validate() error {
	var errs []error
	queue := c.QueueURL != "" || c.QueueName != ""
	switch {
	case c.Metadata == "" && !queue:
		errs = append(errs, errors.New("the queue is missing: give its URL or its name"))
	case c.Metadata != "" && queue:
		errs = append(errs, errors.New("give either a queue or the URL of the instance metadata, not both"))
	case c.Metadata != "" && c.Node == "":
		errs = append(errs, errors.New("the name of the node is missing, whose metadata is read"))
	}
	if _, err := labels.Parse(c.NodeSelector); err != nil {
		errs = append(errs, fmt.Errorf("the node selector %q: %w", c.NodeSelector, err))
	}
	if c.Workers < 1 {
		errs = append(errs, fmt.Errorf("workers must be at least 1, not %d", c.Workers))
	}
	if c.CriticalAfter < 0 || c.DrainTimeout < 0 || c.ShutdownGrace < 0 {
		errs = append(errs, errors.New("durations must not be negative"))
	}
	return errors.Join(errs...)
}

// only is the one node that the handler may drain; empty for all.
func (c Config) only() string {
	if c.Metadata == "" {
		return ""
	}
	return c.Node
}

// ErrConfig marks an error of the configuration.
var ErrConfig = errors.New("invalid configuration")

// Run handles notices until ctx is done. Then it receives no more messages, settles the
// received ones, lets drains continue for Config.ShutdownGrace and returns nil. It fails
// only if it cannot start: see ErrConfig.
func Run(ctx context.Context, cluster *rest.Config, cfg Config, log *slog.Logger) error {
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	cluster = rest.CopyConfig(cluster)
	cluster.QPS, cluster.Burst = 50, 100 // client-go's default of 5 a second would delay the evictions
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := newMetrics(registry)

	var ready atomic.Bool
	server, err := serve(ctx, cfg.Listen, registry, &ready)
	if err != nil {
		return err
	}
	defer server.Close()

	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)), record.WithCorrelatorOptions(
		// Every pod whose eviction is blocked gets its event: no spam filter, no merging.
		record.CorrelatorOptions{BurstSize: 1000, QPS: 100, MaxEvents: 1000},
	))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})

	// The log shows what the handler waits for.
	log.Info("waiting for the Kubernetes API", "server", cluster.Host)
	nodes, err := watchNodes(ctx, client, cfg.NodeSelector, cfg.only())
	if err != nil {
		return stopped(ctx, err)
	}
	var loaded aws.Config // of no use to a handler that reads metadata
	if cfg.Metadata == "" {
		if loaded, err = loadAWS(ctx, cfg); err != nil {
			return stopped(ctx, err)
		}
	}
	drainCtx, stopDrains := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDrains()
	d := &dispatcher{
		nodes: nodes, metrics: m, log: log, drainCtx: drainCtx,
		drainer: &drainer{
			client: client, metrics: m, log: log,
			events:        broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "spotdrill-handler"}),
			criticalAfter: cfg.CriticalAfter, timeout: cfg.DrainTimeout, lifecycles: &lifecycles{autoscaling.NewFromConfig(loaded)},
		},
	}
	defer context.AfterFunc(ctx, func() {
		log.Info("stopping; what is in hand may go on", "for", cfg.ShutdownGrace.String())
		time.AfterFunc(cfg.ShutdownGrace, stopDrains)
	})()
	d.drains.Go(func() { d.resume(ctx) })
	if cfg.Metadata == "" {
		d.drains.Go(func() { d.watchStatus(ctx, &statuses{ec2api.NewFromConfig(loaded)}) })
	}
	if err := d.read(ctx, loaded, cfg, &ready); err != nil {
		return stopped(ctx, err)
	}
	d.drains.Wait()
	return nil
}

// read handles what it reads from the queue, or from the metadata, until ctx is done.
func (d *dispatcher) read(ctx context.Context, loaded aws.Config, cfg Config, ready *atomic.Bool) error {
	if cfg.Metadata != "" {
		d.log.Info("waiting for the instance metadata", "url", cfg.Metadata)
		md, err := openMetadata(ctx, metadataOptions(cfg.Metadata), d.metrics, d.log)
		if err != nil {
			return err
		}
		d.look(ctx, md, ready)
		return nil
	}
	d.log.Info("waiting for the queue", "queue", cmp.Or(cfg.QueueURL, cfg.QueueName), "endpoint", cfg.Endpoint)
	q, err := openQueue(ctx, loaded, cfg, d.metrics, d.log)
	if err != nil {
		return err
	}
	d.queue = q
	d.receive(ctx, cfg.Workers, ready)
	return nil
}

// receive takes messages until ctx is done, and returns when all received ones are
// settled. The first call is a short poll, so that the handler is ready at once.
func (d *dispatcher) receive(ctx context.Context, workers int, ready *atomic.Bool) {
	var group errgroup.Group
	group.SetLimit(workers)
	pause := backoff()
	for ctx.Err() == nil {
		poll := longPoll
		if !ready.Load() {
			poll = 0
		}
		messages, err := d.queue.receive(ctx, poll)
		if err != nil {
			sleep(ctx, pause.Step())
			continue
		}
		pause = backoff()
		if ready.CompareAndSwap(false, true) {
			d.log.Info("receiving")
		}
		for _, message := range messages {
			group.Go(func() error {
				d.handle(d.drainCtx, message)
				return nil
			})
		}
	}
	_ = group.Wait() // its functions return no error
}

// watchNodes returns the informer's store of the nodes that the selector selects, or of the one with that name, after its
// first synchronisation.
func watchNodes(ctx context.Context, client kubernetes.Interface, selector, name string) (cache.Indexer, error) {
	only := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = selector
		if name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	})
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, only)
	informer := factory.Core().V1().Nodes().Informer()
	if err := informer.AddIndexers(cache.Indexers{byInstance: indexByInstance}); err != nil {
		return nil, fmt.Errorf("index nodes: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("list nodes: %w", context.Cause(ctx))
	}
	return informer.GetIndexer(), nil
}

// stopped returns no error if a stop signal interrupted the start.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // a stop signal is no failure
	}
	return err
}

// serve answers /metrics, /healthz (the process lives) and /readyz (nodes are
// known and the queue has answered).
func serve(ctx context.Context, address string, registry *prometheus.Registry, ready *atomic.Bool) (*http.Server, error) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "waiting for the first answer of the Kubernetes API, and of the queue or the instance metadata", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(listener) //nolint:errcheck // it ends when Run closes it
	return server, nil
}

// metrics are the handler's own; their names start with spotdrill_handler_.
type metrics struct {
	messages    *prometheus.CounterVec // cause, result
	deletes     *prometheus.CounterVec // result
	drains      *prometheus.CounterVec // result
	draining    prometheus.Gauge
	evictions   *prometheus.CounterVec // result
	drainTime   prometheus.Histogram
	queueErrors *prometheus.CounterVec // action
	// metadataErrors are failed requests for instance metadata, by path.
	metadataErrors *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "spotdrill", Subsystem: "handler", Name: name, Help: help}, labels)
	}
	m := &metrics{
		messages:       counter("messages_total", "Messages handled, by cause and result.", "cause", "result"),
		deletes:        counter("deletes_total", "Attempts to delete a message from the queue, by result.", "result"),
		drains:         counter("drains_total", "Drains that ended, by result.", "result"),
		evictions:      counter("evictions_total", "Calls of the Eviction API, by result.", "result"),
		queueErrors:    counter("queue_errors_total", "SQS calls that failed, by action.", "action"),
		metadataErrors: counter("metadata_errors_total", "Requests for instance metadata that failed, by path.", "path"),
		draining: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "spotdrill", Subsystem: "handler", Name: "draining_nodes", Help: "Nodes that are currently being drained.",
		}),
		drainTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spotdrill", Subsystem: "handler", Name: "drain_duration_seconds",
			Help:    "Time from the record of a drain to an empty node.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 300, 600},
		}),
	}
	registry.MustRegister(m.messages, m.deletes, m.drains, m.draining, m.evictions, m.drainTime, m.queueErrors, m.metadataErrors)
	return m
}
