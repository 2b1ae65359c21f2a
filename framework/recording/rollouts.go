package recording

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/history"
)

// rollout is how far the pods of a workload are of its newest template, as kubectl rollout status
// shows it.
type rollout struct {
	kind                       string
	observed                   bool // the controller has seen the newest template
	wanted, updated, ready, of int32
}

func (r rollout) complete() bool {
	return r.observed && r.updated >= r.wanted && r.of <= r.updated && r.ready >= r.wanted
}

func (r rollout) String() string {
	return fmt.Sprintf("%d of %d updated, %d available, %d in all", r.updated, r.wanted, r.ready, r.of)
}

func deployed(d *appsv1.Deployment) rollout {
	s := d.Status
	return rollout{"Deployment", s.ObservedGeneration >= d.Generation, ptr.Deref(d.Spec.Replicas, 1), s.UpdatedReplicas, s.AvailableReplicas, s.Replicas}
}

func placed(d *appsv1.DaemonSet) rollout {
	s := d.Status
	r := rollout{"DaemonSet", s.ObservedGeneration >= d.Generation, s.DesiredNumberScheduled, s.UpdatedNumberScheduled, s.NumberAvailable, s.UpdatedNumberScheduled}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		r.updated, r.of = r.wanted, r.wanted // nothing replaces its pods
	}
	return r
}

func ordered(d *appsv1.StatefulSet) rollout {
	s := d.Status
	r := rollout{"StatefulSet", s.ObservedGeneration >= d.Generation, ptr.Deref(d.Spec.Replicas, 1), s.UpdatedReplicas, s.ReadyReplicas, s.Replicas}
	keep := int32(0) // the pods below the partition are not updated
	if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
		keep = ptr.Deref(u.Partition, 0)
	}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || keep > 0 && r.updated >= r.wanted-keep {
		r.updated, r.of = r.wanted, min(r.of, r.wanted)
	}
	return r
}

// every counts all workloads.
func every[T any](T) bool { return true }

// of selects the workloads of the application: those whose pods its Service selects.
func (s Scope) of(template corev1.PodTemplateSpec) bool {
	return len(s.Selector) > 0 && labels.SelectorFromSet(s.Selector).Matches(labels.Set(template.Labels))
}

// rolloutsOfApplication watches the workloads of the application, except those that are watched next to DNS.
func (s Scope) rolloutsOfApplication(o observer, apps appsclient.AppsV1Interface) []*sight {
	namespace := s.Application.Namespace
	out := []*sight{newSight("rollouts of the application's StatefulSets", apps.StatefulSets(namespace), "",
		on(rollouts(o, ordered, func(d *appsv1.StatefulSet) bool { return s.of(d.Spec.Template) })))}
	if s.Rollouts && namespace == s.DNS.Namespace {
		return out
	}
	return append(out,
		newSight("rollouts of the application's Deployments", apps.Deployments(namespace), "",
			on(rollouts(o, deployed, func(d *appsv1.Deployment) bool { return s.of(d.Spec.Template) }))),
		newSight("rollouts of the application's DaemonSets", apps.DaemonSets(namespace), "",
			on(rollouts(o, placed, func(d *appsv1.DaemonSet) bool { return s.of(d.Spec.Template) }))))
}

// rollouts are the functions that record how the rollout of a workload that counts goes on.
func rollouts[T metav1.Object](o observer, read func(T) rollout, counts func(T) bool) (added func(T, bool), changed func(before, after T), deleted func(T)) {
	report := func(of T, r rollout) {
		if !counts(of) {
			return
		}
		name := r.kind + "/" + of.GetNamespace() + "/" + of.GetName()
		if r.complete() {
			o.rec.Record(history.NewRolloutComplete(name))
		} else {
			o.rec.Record(history.NewRolloutProgressing(name, r.String()))
		}
	}
	added = func(now T, _ bool) { report(now, read(now)) }
	changed = func(before, after T) {
		was, is := read(before), read(after)
		if was != is && (!was.complete() || !is.complete()) {
			report(after, is)
		}
	}
	deleted = func(last T) {
		if !counts(last) {
			return
		}
		o.rec.Record(history.NewRolloutComplete(read(last).kind + "/" + last.GetNamespace() + "/" + last.GetName()))
	}
	return added, changed, deleted
}
