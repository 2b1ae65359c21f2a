package recording

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestRolloutsAreRecordedAsKubectlShowsThem(t *testing.T) {
	t.Parallel()
	deployment := func(generation, observed int64, updated, all, available int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns", Generation: generation},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(int32(2))},
			Status:     appsv1.DeploymentStatus{ObservedGeneration: observed, UpdatedReplicas: updated, Replicas: all, AvailableReplicas: available},
		}
	}
	daemons := func(strategy appsv1.DaemonSetUpdateStrategyType, updated, available int32) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"},
			Spec:       appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: strategy}},
			Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: updated, NumberAvailable: available},
		}
	}
	for name, c := range map[string]struct {
		is   rollout
		want bool
	}{
		"complete":                           {deployed(deployment(3, 3, 2, 2, 2)), true},
		"the controller has not seen it":     {deployed(deployment(4, 3, 2, 2, 2)), false},
		"one pod is of the old template":     {deployed(deployment(4, 4, 1, 2, 2)), false},
		"an old pod is there in addition":    {deployed(deployment(4, 4, 2, 3, 3)), false},
		"a new one is not available":         {deployed(deployment(4, 4, 2, 2, 1)), false},
		"all daemons":                        {placed(daemons(appsv1.RollingUpdateDaemonSetStrategyType, 3, 3)), true},
		"a daemon is of the old template":    {placed(daemons(appsv1.RollingUpdateDaemonSetStrategyType, 2, 3)), false},
		"a daemon is not available":          {placed(daemons(appsv1.RollingUpdateDaemonSetStrategyType, 3, 2)), false},
		"daemons that nothing replaces":      {placed(daemons(appsv1.OnDeleteDaemonSetStrategyType, 1, 3)), true},
		"one of those that is not available": {placed(daemons(appsv1.OnDeleteDaemonSetStrategyType, 1, 2)), false},
	} {
		if c.is.complete() != c.want {
			t.Errorf("%s: complete %t (%s)", name, c.is.complete(), c.is)
		}
	}

	rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close(false)
	scope := Scope{DNS: types.NamespacedName{Namespace: "kube-system", Name: "kube-dns"}, Rollouts: true}
	w, err := Watch(t.Context(), fake.NewClientset(deployment(3, 3, 2, 2, 2), daemons("", 2, 3)), rec, scope)
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
	var got []string
	for _, e := range rec.Events() {
		got = append(got, string(e.Kind)+" "+e.Workload())
	}
	for _, want := range []string{"rollout.complete Deployment/kube-system/coredns", "rollout.progressing DaemonSet/kube-system/kube-proxy"} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
	}
	_, changed, _ := rollouts(observer{rec: rec}, deployed)
	before := len(rec.Events())
	changed(deployment(3, 3, 2, 2, 2), deployment(3, 3, 2, 2, 2))
	changed(deployment(3, 3, 2, 2, 2), deployment(4, 3, 2, 2, 2))
	if got := rec.Events()[before:]; len(got) != 1 || got[0].Kind != history.RolloutProgressing {
		t.Errorf("a change of nothing, and a restart: recorded %+v", got)
	}
}
