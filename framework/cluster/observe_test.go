package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/history"
)

// pod is one with a container that was restarted so often, the last time after
// it had ended with that code.
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
		"those of before":            {pod(3, 2), pod(3, 2), 0},
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
				events[0].Reason != "Error" || events[0].Numbers["restarts"] != c.want || events[0].Numbers["exit_code"] != 2 {
				t.Errorf("recorded %+v", events)
			}
		})
	}
}
