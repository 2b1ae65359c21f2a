package builtin

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podOption changes a pod that would otherwise be a bare, running, ordinary one.
type podOption func(*corev1.Pod)

func pod(name string, options ...podOption) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: "spot-1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, option := range options {
		option(p)
	}
	return p
}

func ownedBy(kind string) podOption {
	yes := true
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", Controller: &yes}}
	}
}

func phase(phase corev1.PodPhase) podOption {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func tolerating(toleration corev1.Toleration) podOption {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, toleration) }
}

func priority(value int32) podOption {
	return func(p *corev1.Pod) { p.Spec.Priority = &value }
}

func terminating(p *corev1.Pod) {
	now := metav1.Now()
	p.DeletionTimestamp, p.Finalizers = &now, []string{"test/kept"}
}

func mirrored(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
}

func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func TestWhichPodsHaveToLeave(t *testing.T) {
	for name, c := range map[string]struct {
		option podOption
		want   bool
	}{
		"a Deployment's pod leaves":        {ownedBy("ReplicaSet"), true},
		"a bare pod leaves":                {func(*corev1.Pod) {}, true},
		"a pod with an emptyDir leaves":    {withEmptyDir, true},
		"a pending pod leaves":             {phase(corev1.PodPending), true},
		"a terminating pod has to be gone": {terminating, true},
		"a critical pod leaves":            {priority(criticalPriority), true},
		"a pod that tolerates not-ready leaves": {
			tolerating(corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}), true,
		},
		"a pod that tolerates the taint's NoExecute only leaves": {
			tolerating(corev1.Toleration{Key: disruptedKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}), true,
		},
		"a daemon pod stays":          {ownedBy("DaemonSet"), false},
		"a static pod stays":          {mirrored, false},
		"a succeeded pod stays":       {phase(corev1.PodSucceeded), false},
		"a failed pod stays":          {phase(corev1.PodFailed), false},
		"a pod that tolerates it all": {tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}), false},
		"a pod that tolerates a cordon stays": {
			tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), false,
		},
		"a pod that tolerates the taint stays": {
			tolerating(corev1.Toleration{Key: disruptedKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := leaving(pod("p", c.option)); got != c.want {
				t.Errorf("leaving = %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhichPodsAreDue(t *testing.T) {
	web, job := pod("web"), pod("job")
	webLeaving := pod("web", terminating)
	dns, agent := pod("dns", priority(criticalPriority)), pod("agent", priority(criticalPriority+1000))
	dnsByName := pod("dns", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" })
	important := pod("important", priority(1_000_000_000))
	for name, c := range map[string]struct {
		pods     []*corev1.Pod
		waitOver bool
		want     []string
	}{
		"ordinary pods go first, all at once":           {[]*corev1.Pod{dns, web, job}, false, []string{"web", "job"}},
		"critical pods wait for those on their way out": {[]*corev1.Pod{dns, webLeaving}, false, nil},
		"critical pods go when no other is left":        {[]*corev1.Pod{dns, agent}, false, []string{"dns", "agent"}},
		"critical pods go when their wait is over":      {[]*corev1.Pod{dns, web}, true, []string{"dns", "web"}},
		"a user's highest priority is not critical":     {[]*corev1.Pod{important, dns}, false, []string{"important"}},
		"a priority class counts before admission":      {[]*corev1.Pod{web, dnsByName}, false, []string{"web"}},
		"nobody is evicted twice":                       {[]*corev1.Pod{webLeaving}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []corev1.Pod
			for _, p := range c.pods {
				pods = append(pods, *p)
			}
			var got []string
			for _, p := range due(pods, c.waitOver) {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("due = %v, want %v", got, c.want)
			}
		})
	}
}
