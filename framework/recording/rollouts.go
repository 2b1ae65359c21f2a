package recording

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// rollouts are the functions that record how a workload's rollout goes on.
func rollouts[T metav1.Object](o observer, read func(T) rollout) (added func(T, bool), changed func(before, after T), deleted func(T)) {
	report := func(of T, r rollout) {
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
		o.rec.Record(history.NewRolloutComplete(read(last).kind + "/" + last.GetNamespace() + "/" + last.GetName()))
	}
	return added, changed, deleted
}
