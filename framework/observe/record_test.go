package observe

import (
	"context"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Complete means the same as in a drill: the harness did all of its part.
func TestAnObservationThatFailsIsNotComplete(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]error{"nothing failed": nil, "the watch broke": context.DeadlineExceeded} {
		dir := t.TempDir()
		rec, err := history.Create(dir, history.NewClock(), history.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{Recorder: rec}
		if failed != nil {
			_ = r.fail(failed)
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
		h, err := history.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if h.Complete != (failed == nil) {
			t.Errorf("%s: complete %t", name, h.Complete)
		}
	}
	// An interrupt before the first list of the cluster fails the observation.
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	dir := t.TempDir()
	o := &Observation{placed: &placed{Cluster: &Cluster{Clientset: fake.NewClientset()}}}
	if err := o.Record(ctx, dir, history.Meta{}, Action{Do: func(context.Context, *history.Recorder) error { return nil }}); err == nil {
		t.Error("no error after an interrupt")
	}
	if h, err := history.Load(dir); err != nil || h.Complete {
		t.Errorf("after an interrupt: complete %t, %v", h.Complete, err)
	}
}
