package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Watcher records what changes in the cluster: nodes, pods, the endpoints of
// kube-dns, and Kubernetes events about nodes and pods.
type Watcher struct {
	stop context.CancelFunc
	done []func()
}

// syncTimeout bounds the first listing; it takes milliseconds.
const syncTimeout = 20 * time.Second

// Watch records the objects that exist, then every change, until Stop. When it
// returns, all present objects are in the history.
func (c *Cluster) Watch(ctx context.Context, rec *history.Recorder) (*Watcher, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	all := informers.NewSharedInformerFactory(c.Clientset, 0)
	dns := informers.NewSharedInformerFactoryWithOptions(c.Clientset, 0,
		informers.WithNamespace(dnsNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = discoveryv1.LabelServiceName + "=" + dnsService }))

	logs := &dnsLogs{ctx: ctx, clientset: c.Clientset, rec: rec, open: map[types.UID]bool{}}
	o := observer{rec: rec, clock: rec.Clock(), dnsReady: logs.follow}
	var synced []cache.InformerSynced
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{all.Core().V1().Nodes().Informer(), on(o.nodeAdded, o.nodeChanged, o.nodeDeleted)},
		{all.Core().V1().Pods().Informer(), on(o.podAdded, o.podChanged, o.podDeleted)},
		{all.Core().V1().Events().Informer(), on(o.eventAdded, o.eventChanged, func(*corev1.Event) {})},
		{dns.Discovery().V1().EndpointSlices().Informer(), on(o.sliceAdded, o.sliceChanged, o.sliceDeleted)},
	} {
		reg, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			stop()
			return nil, fmt.Errorf("watch the cluster: %w", err)
		}
		synced = append(synced, reg.HasSynced)
	}
	all.Start(ctx.Done())
	dns.Start(ctx.Done())
	w := &Watcher{stop: stop, done: []func(){all.Shutdown, dns.Shutdown, logs.running.Wait}}
	limit, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(limit.Done(), synced...) {
		w.Stop()
		return nil, fmt.Errorf("watch the cluster: the first listing did not come within %s", syncTimeout)
	}
	return w, nil
}

// Stop ends the recording and waits until nothing is written any more.
func (w *Watcher) Stop() {
	w.stop()
	for _, f := range w.done {
		f()
	}
}

// on adapts typed functions to client-go's handler, tombstones included.
func on[T any](added func(obj T, initial bool), changed func(before, after T), deleted func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if t, ok := obj.(T); ok {
				added(t, initial)
			}
		},
		UpdateFunc: func(before, after any) {
			b, okB := before.(T)
			a, okA := after.(T)
			if okB && okA {
				changed(b, a)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if t, ok := obj.(T); ok {
				deleted(t)
			}
		},
	}
}

// observer turns changes of objects into events of the history.
type observer struct {
	rec   *history.Recorder
	clock *history.Clock
	// dnsReady hears of every pod of cluster DNS that becomes Ready.
	dnsReady func(*corev1.Pod)
}

// said converts an API time, which has whole seconds, to an offset.
func (o observer) said(t metav1.Time) *time.Duration {
	if t.IsZero() {
		return nil
	}
	d := o.clock.Of(t.Time)
	return &d
}
