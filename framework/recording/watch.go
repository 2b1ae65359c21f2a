// Package recording takes into a history what happens in a cluster: the objects that change, Kubernetes events, what CoreDNS
// logs as it terminates, and the requests in the audit log. It works in any cluster, as far as the client may read it.
package recording

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Watcher records changes in the cluster: of nodes, of pods, of the endpoints of kube-dns,
// and Kubernetes events about nodes and pods.
type Watcher struct {
	stop    context.CancelFunc
	sights  []*sight
	logs    *dnsLogs
	running sync.WaitGroup
}

const (
	// syncTimeout bounds the first list, which takes milliseconds.
	syncTimeout = 20 * time.Second
	// completeTimeout bounds the wait for outstanding events of a watch, which takes
	// milliseconds as well.
	completeTimeout = 10 * time.Second
)

// Scope is what is watched of a cluster in addition to its nodes: all that a client may read.
type Scope struct {
	// DNS is the Service of CoreDNS.
	DNS types.NamespacedName
	// Pods are the namespaces whose pods are watched; metav1.NamespaceAll for all of them.
	Pods []string
	// Events and DNSLogs report whether Kubernetes events are watched, and what CoreDNS logs as
	// it terminates.
	Events, DNSLogs bool
	// Gaps allows that a watch cannot be resumed where it ended, as when the only API server of a
	// cluster is restarted: what came and went meanwhile is then not on record. Otherwise that is
	// an error.
	Gaps bool
	// Services are those whose endpoints are recorded like those of DNS.
	Services []types.NamespacedName
	// Application, if its name is set, is another such Service, that of the observed application. As is
	// what it is called in the history.
	Application types.NamespacedName
	As          string
	// Selector is that of the application's Service. The rollouts of the Deployments, DaemonSets and
	// StatefulSets whose pods it selects are watched.
	Selector map[string]string
	// Foreign, if set, reports whether a node, or all in a namespace, is left out by its name.
	Foreign func(name string) bool
	// Rollouts reports whether the Deployments and DaemonSets next to DNS are watched: CoreDNS, the network,
	// kube-proxy.
	Rollouts bool
}

// What CoreDNS is known by in clusters that kubeadm makes, and on EKS.
const (
	appLabel     = "k8s-app"
	dnsService   = "kube-dns"
	dnsNamespace = metav1.NamespaceSystem
)

// Everything is the scope of a client that may read all. The endpoints of the services are recorded
// like those of kube-dns.
func Everything(services ...types.NamespacedName) Scope {
	return Scope{
		DNS: types.NamespacedName{Namespace: dnsNamespace, Name: dnsService}, Pods: []string{metav1.NamespaceAll},
		Events: true, DNSLogs: true, Services: services,
	}
}

// Watch records the objects that exist, and then every change until Stop. When it returns,
// all existing objects are in the history.
func Watch(ctx context.Context, clientset kubernetes.Interface, rec *history.Recorder, scope Scope) (*Watcher, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	logs := &dnsLogs{ctx: ctx, clientset: clientset, rec: rec, open: map[types.UID]bool{}}
	o := observer{rec: rec, clock: rec.Clock(), dnsReady: func(*corev1.Pod) {}}
	if scope.DNSLogs {
		o.dnsReady = logs.follow
	}
	core, discovery := clientset.CoreV1(), clientset.DiscoveryV1()
	slices := func(of observer, s types.NamespacedName) *sight {
		return newSight("EndpointSlices of "+s.Name, discovery.EndpointSlices(s.Namespace), discoveryv1.LabelServiceName+"="+s.Name,
			on(of.sliceAdded, of.sliceChanged, of.sliceDeleted))
	}
	w := &Watcher{stop: stop, logs: logs, sights: []*sight{newSight("nodes", core.Nodes(), "", on(o.nodeAdded, o.nodeChanged, o.nodeDeleted))}}
	for _, namespace := range scope.Pods {
		w.sights = append(w.sights, newSight(strings.TrimSpace("pods "+namespace), core.Pods(namespace), "", on(o.podAdded, o.podChanged, o.podDeleted)))
	}
	if scope.Events {
		events := newSight("events", core.Events(metav1.NamespaceAll), "", on(o.eventAdded, o.eventChanged, func(*corev1.Event) {}))
		// For an hour, --event-ttl. A watch of them cannot resume after some quiet minutes: etcd
		// is compacted every five, and there are no bookmarks of events.
		events.lasting = true
		w.sights = append(w.sights, events)
	}
	w.sights = append(w.sights, slices(o, scope.DNS))
	if scope.Rollouts {
		apps := clientset.AppsV1()
		w.sights = append(w.sights,
			newSight("rollouts of Deployments", apps.Deployments(scope.DNS.Namespace), "", on(rollouts(o, deployed, every))),
			newSight("rollouts of DaemonSets", apps.DaemonSets(scope.DNS.Namespace), "", on(rollouts(o, placed, every))))
	}
	if scope.Application.Name != "" {
		of := o
		of.service = scope.As
		w.sights = append(w.sights, slices(of, scope.Application))
		if len(scope.Selector) > 0 {
			w.sights = append(w.sights, scope.rolloutsOfApplication(o, clientset.AppsV1())...)
		}
	}
	for _, s := range scope.Services {
		of := o
		of.service = s.Name
		w.sights = append(w.sights, slices(of, s))
	}
	for _, s := range w.sights {
		s.rec, s.gaps = rec, scope.Gaps
		if scope.Foreign != nil {
			s.handler = cache.FilteringResourceEventHandler{Handler: s.handler, FilterFunc: func(obj any) bool { return !scope.Foreign(place(obj)) }}
		}
		reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(&s.source, clientset), nil, s,
			cache.ReflectorOptions{Name: "recording", TypeDescription: s.what})
		s.newest = reflector.LastSyncResourceVersion
		w.running.Go(func() { reflector.RunWithContext(ctx) })
	}
	limit, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for _, s := range w.sights {
		select {
		case <-s.listed:
		case <-limit.Done():
			w.Stop()
			return nil, fmt.Errorf("watch the cluster: no list of %s within %s", s.what, syncTimeout)
		}
	}
	return w, nil
}

// place is the node that an object is or is about, or else its namespace.
func place(obj any) string {
	switch o := obj.(type) {
	case *corev1.Node:
		return o.Name
	case *corev1.Event:
		if o.InvolvedObject.Kind == "Node" {
			return o.InvolvedObject.Name
		}
		return o.InvolvedObject.Namespace
	case metav1.Object:
		return o.GetNamespace()
	}
	return ""
}

// Complete waits until everything that has happened in the cluster is recorded, at most
// 10 s. It is an error if that takes longer or if a watch was interrupted: events may then
// be missing.
func (w *Watcher) Complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	for _, s := range w.sights {
		if err := s.complete(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the recording and waits until nothing more is written.
func (w *Watcher) Stop() {
	w.stop()
	w.running.Wait()
	w.logs.running.Wait()
}

// on adapts typed functions to client-go's handler.
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
			if t, ok := obj.(T); ok {
				deleted(t)
			}
		},
	}
}

// observer translates changes of objects to events of the history.
type observer struct {
	rec   *history.Recorder
	clock *history.Clock
	// service is the Service whose endpoints are seen; empty for kube-dns.
	service string
	// dnsReady is called for every CoreDNS pod that becomes Ready.
	dnsReady func(*corev1.Pod)
}

// said converts a time of the API, in whole seconds, to an offset.
func (o observer) said(t metav1.Time) *time.Duration {
	if t.IsZero() {
		return nil
	}
	d := o.clock.Of(t.Time)
	return &d
}
