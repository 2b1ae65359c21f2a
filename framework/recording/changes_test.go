package recording

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/history"
)

// pod has a container that was restarted that many times, the last time after it exited
// with that code.
func pod(restarts, exitCode int32) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "handler", UID: "u"}}
	status := corev1.ContainerStatus{RestartCount: restarts}
	if restarts > 0 {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: exitCode}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	return p
}

func TestARestartIsRecorded(t *testing.T) {
	bare := pod(0, 0)
	bare.Status.ContainerStatuses = nil
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          float64 // restarts on record; 0 for no event
	}{
		"none":                       {pod(0, 0), pod(0, 0), 0},
		"the first":                  {pod(0, 0), pod(1, 2), 1},
		"one more":                   {pod(3, 2), pod(4, 2), 4},
		"earlier ones":               {pod(3, 2), pod(3, 2), 0},
		"those of a pod just listed": {bare, pod(3, 2), 0},
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
			if err != nil {
				t.Fatal(err)
			}
			defer rec.Close(false)
			observer{rec: rec, clock: rec.Clock()}.podChanged(c.before, c.after)
			events := rec.Events()
			if c.want == 0 {
				if len(events) > 0 {
					t.Errorf("recorded %+v", events)
				}
				return
			}
			if len(events) != 1 || events[0].Kind != history.PodRestarted || events[0].Pod != "ns/handler" ||
				events[0].KubernetesReason() != "Error" || events[0].Numbers[history.Restarts] != c.want || events[0].Numbers[history.ExitCode] != 2 {
				t.Errorf("recorded %+v", events)
			}
		})
	}
}

// recorded returns the events of one change of a pod, or of a listed pod if before is nil.
func recorded(t *testing.T, before, after *corev1.Pod) []history.Event {
	t.Helper()
	rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close(false)
	o := observer{rec: rec, clock: rec.Clock()}
	if before == nil {
		o.podAdded(after, true)
	} else {
		o.podChanged(before, after)
	}
	return rec.Events()
}

func TestAPodIsRecordedWithWhatItsDrainDependsOn(t *testing.T) {
	p := pod(0, 0)
	p.Labels = map[string]string{"app": "slow"}
	p.Spec.Priority, p.Spec.TerminationGracePeriodSeconds = ptr.To(int32(2_000_000_000)), ptr.To(int64(10))
	p.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists},
		{Key: "example.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: "example.com/gpu"},
		{Key: "example.com/team", Value: "a"},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	anything := pod(0, 0)
	anything.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	for name, c := range map[string]struct {
		pod       *corev1.Pod
		key       string
		tolerates string
		want      history.Numbers
	}{
		"a plain one":         {pod(0, 0), "", "", history.Numbers{history.Priority: 0, history.Grace: 30}},
		"one with everything": {p, "slow", "node.kubernetes.io/unschedulable,example.com/gpu", history.Numbers{history.Priority: 2_000_000_000, history.Grace: 10, history.ToleratesDrain: 1}},
		"one for every node":  {anything, "", "*", history.Numbers{history.Priority: 0, history.Grace: 30, history.ToleratesDrain: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			events := recorded(t, nil, c.pod)
			if len(events) == 0 || events[0].Kind != history.PodPresent || events[0].Group() != c.key || events[0].Note != c.tolerates || !maps.Equal(events[0].Numbers, c.want) {
				t.Errorf("recorded %+v, want %q, %q and %v", events, c.key, c.tolerates, c.want)
			}
		})
	}
}

func TestLabelsAndAnnotationsThatChangeAreRecorded(t *testing.T) {
	rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close(false)
	o := observer{rec: rec, clock: rec.Clock()}
	before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"same": "1", "other": "1", "gone": "1"}}}
	after := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Labels: map[string]string{"same": "1", "other": "2", "new": ""}, Annotations: map[string]string{"note": "3"},
	}}
	o.nodeAdded(before, true) // what is there at first is not on record
	o.nodeChanged(before, after)
	o.nodeChanged(after, before)
	var got []history.Event
	for _, e := range rec.Events() {
		if e.Kind != history.NodePresent && e.Kind != history.NodeNotReady {
			e.Seq, e.At = 0, 0
			got = append(got, e)
		}
	}
	want := []history.Event{
		history.NewNodeLabelled("n", "new", ""),
		history.NewNodeLabelled("n", "other", "2", history.Note(`"1"`)),
		history.NewNodeUnlabelled("n", "gone", history.Note(`"1"`)),
		history.NewNodeAnnotated("n", "note", "3"),
		history.NewNodeLabelled("n", "gone", "1"),
		history.NewNodeLabelled("n", "other", "1", history.Note(`"2"`)),
		history.NewNodeUnlabelled("n", "new", history.Note(`""`)),
		history.NewNodeUnannotated("n", "note", history.Note(`"3"`)),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("recorded %+v, want %+v", got, want)
	}
}

func TestAPodThatFinishesIsRecorded(t *testing.T) {
	in := func(phase corev1.PodPhase) *corev1.Pod {
		p := pod(0, 0)
		p.Status.Phase = phase
		return p
	}
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          []string // the kinds on record, with their reasons
	}{
		"when it has succeeded":           {in(corev1.PodRunning), in(corev1.PodSucceeded), []string{"pod.finished Succeeded"}},
		"when it has failed":              {in(corev1.PodRunning), in(corev1.PodFailed), []string{"pod.finished Failed"}},
		"once":                            {in(corev1.PodSucceeded), in(corev1.PodSucceeded), nil},
		"not before":                      {in(corev1.PodPending), in(corev1.PodRunning), nil},
		"by its first event, if it is so": {nil, in(corev1.PodSucceeded), []string{"pod.present Succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range recorded(t, c.before, c.after) {
				got = append(got, string(e.Kind)+" "+e.PodPhase())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("recorded %v, want %v", got, c.want)
			}
		})
	}
}

func TestATerminatingPodIsRecorded(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	terminating := func(grace int64) *corev1.Pod {
		p := pod(0, 0)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now.Add(time.Duration(grace)*time.Second))), &grace
		return p
	}
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          float64 // the grace on record; -1 for no event
	}{
		"first":           {pod(0, 0), terminating(30), 30},
		"at once":         {pod(0, 0), terminating(0), 0},
		"still":           {terminating(30), terminating(30), -1},
		"with less grace": {terminating(30), terminating(1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			events := recorded(t, c.before, c.after)
			if c.want < 0 {
				if len(events) > 0 {
					t.Errorf("recorded %+v", events)
				}
				return
			}
			if len(events) != 1 || events[0].Kind != history.PodTerminating || events[0].Numbers[history.Grace] != c.want {
				t.Errorf("recorded %+v, want grace %g", events, c.want)
			}
		})
	}
}
