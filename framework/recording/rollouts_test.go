package recording

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	statefulSet := func(strategy appsv1.StatefulSetUpdateStrategyType, partition, updated, all, ready int32) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(int32(3)), UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: strategy, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
			}},
			Status: appsv1.StatefulSetStatus{UpdatedReplicas: updated, Replicas: all, ReadyReplicas: ready},
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
		"all in order":                       {ordered(statefulSet("", 0, 3, 3, 3)), true},
		"one is of the old template":         {ordered(statefulSet("", 0, 2, 3, 3)), false},
		"one is not Ready":                   {ordered(statefulSet("", 0, 3, 3, 2)), false},
		"those above the partition":          {ordered(statefulSet("", 2, 1, 3, 3)), true},
		"not all of those":                   {ordered(statefulSet("", 1, 1, 3, 3)), false},
		"replaced by nobody":                 {ordered(statefulSet(appsv1.OnDeleteStatefulSetStrategyType, 0, 0, 3, 3)), true},
		"one of them is not Ready":           {ordered(statefulSet(appsv1.OnDeleteStatefulSetStrategyType, 0, 0, 3, 2)), false},
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
	_, changed, _ := rollouts(observer{rec: rec}, deployed, every)
	before := len(rec.Events())
	changed(deployment(3, 3, 2, 2, 2), deployment(3, 3, 2, 2, 2))
	changed(deployment(3, 3, 2, 2, 2), deployment(4, 3, 2, 2, 2))
	if got := rec.Events()[before:]; len(got) != 1 || got[0].Kind != history.RolloutProgressing {
		t.Errorf("a change of nothing, and a restart: recorded %+v", got)
	}
}

// The application's own workloads are watched, whatever their kind, wherever it is; others of its namespace are not.
func TestRolloutsOfTheApplication(t *testing.T) {
	t.Parallel()
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)}
	}
	pods := func(app string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app, "tier": "x"}}}
	}
	objs := func(namespace string) []runtime.Object {
		return []runtime.Object{
			&appsv1.Deployment{ObjectMeta: meta(namespace, "web"), Spec: appsv1.DeploymentSpec{Template: pods("web")}},
			&appsv1.Deployment{ObjectMeta: meta(namespace, "web-canary"), Spec: appsv1.DeploymentSpec{Template: pods("web")}},
			&appsv1.Deployment{ObjectMeta: meta(namespace, "other"), Spec: appsv1.DeploymentSpec{Template: pods("other")}},
			&appsv1.StatefulSet{ObjectMeta: meta(namespace, "db"), Spec: appsv1.StatefulSetSpec{Template: pods("web")}},
			&appsv1.StatefulSet{ObjectMeta: meta(namespace, "queue"), Spec: appsv1.StatefulSetSpec{Template: pods("queue")}},
			&appsv1.DaemonSet{ObjectMeta: meta(namespace, "edge"), Spec: appsv1.DaemonSetSpec{Template: pods("web")}},
			&appsv1.DaemonSet{ObjectMeta: meta("elsewhere", "edge"), Spec: appsv1.DaemonSetSpec{Template: pods("web")}},
		}
	}
	for name, c := range map[string]struct {
		namespace string
		selector  map[string]string
		want      string
	}{
		"in a namespace of its own":      {"shop", map[string]string{"app": "web"}, "DaemonSet/shop/edge Deployment/shop/web Deployment/shop/web-canary StatefulSet/shop/db"},
		"its Service selects nothing":    {"shop", nil, ""},
		"next to CoreDNS, each one once": {"kube-system", map[string]string{"app": "web"}, "DaemonSet/kube-system/edge Deployment/kube-system/other Deployment/kube-system/web Deployment/kube-system/web-canary StatefulSet/kube-system/db"},
	} {
		rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := Watch(t.Context(), fake.NewClientset(objs(c.namespace)...), rec, Scope{
			DNS: types.NamespacedName{Namespace: "kube-system", Name: "kube-dns"}, Rollouts: true,
			Application: types.NamespacedName{Namespace: c.namespace, Name: "web"}, As: "app", Selector: c.selector,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
		var got []string
		for _, e := range rec.Events() {
			if of := e.Workload(); of != "" {
				got = append(got, of)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		_ = rec.Close(false)
	}
}
