package recommend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"
)

// The times of a try.
const (
	tryPoll = 500 * time.Millisecond
	// TryTimeout is how long the next pod of CoreDNS has to become Ready. It usually takes seconds.
	TryTimeout = 60 * time.Second
	// tryDeadline ends the pod if nobody deletes it.
	tryDeadline = 2 * TryTimeout
	// triedLines is how much of its log is shown.
	triedLines = 3
)

// TryNextPod starts one pod with the image, the ConfigMap and the nodes of CoreDNS's next pod, and
// deletes it. It has other labels, so that it gets no query. There is no finding if it becomes
// Ready: a Corefile that cannot be read goes unnoticed until a pod is replaced. Nothing else of
// this package changes a cluster.
func TryNextPod(ctx context.Context, client kubernetes.Interface, d DNS) ([]Finding, error) {
	if d.Workload.Kind == "" {
		return nil, errors.New("start a pod like the next one of CoreDNS: the cluster's DNS does not run in pods")
	}
	pods := client.CoreV1().Pods(d.Workload.Namespace)
	pod, err := pods.Create(ctx, nextPod(d), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("start a pod like the next one of CoreDNS: %w", err)
	}
	defer func() {
		_ = pods.Delete(context.WithoutCancel(ctx), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}) // its deadline ends it otherwise
	}()
	const rule = "next-pod-starts"
	last := "it was not started"
	err = wait.PollUntilContextTimeout(ctx, tryPoll, TryTimeout, true, func(ctx context.Context) (bool, error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		var done bool
		last, done = stateOf(now)
		return done, nil
	})
	switch {
	case last == "" && err == nil:
		return nil, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && !wait.Interrupted(err):
		return nil, fmt.Errorf("read pod %s: %w", pod.Name, err)
	case err != nil:
		f := unknown(rule, "a pod like the next one was not Ready within %s: %s", TryTimeout, last)
		f.Fix = "find out why: kubectl -n " + d.Workload.Namespace + " get events"
		return []Finding{f}, nil
	}
	return []Finding{breaks(rule, "a pod like the next one does not start: %s: %s", last, logOf(ctx, client, pod))}, nil
}

// nextPod is the pod, without what makes it one of CoreDNS's, or keeps it off their nodes.
func nextPod(d DNS) *corev1.Pod {
	spec := *d.Workload.Template.Spec.DeepCopy()
	spec.RestartPolicy = corev1.RestartPolicyNever
	spec.ActiveDeadlineSeconds = ptr.To(int64(tryDeadline.Seconds()))
	spec.Affinity, spec.TopologySpreadConstraints = nil, nil
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: d.Workload.Name + "-try-", Namespace: d.Workload.Namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "spotdrill"}},
		Spec:       spec,
	}
}

// stateOf is why a pod is not Ready, or "", and whether that will not change.
func stateOf(p *corev1.Pod) (why string, done bool) {
	if podutils.IsPodReady(p) {
		return "", true
	}
	for _, s := range p.Status.ContainerStatuses {
		if end := s.State.Terminated; end != nil {
			return fmt.Sprintf("container %s ended with exit code %d", s.Name, end.ExitCode), true
		}
		if waiting := s.State.Waiting; waiting != nil {
			return strings.TrimSpace(fmt.Sprintf("container %s waits: %s %s", s.Name, waiting.Reason, waiting.Message)), false
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Message, false
		}
	}
	return "it is in phase " + string(p.Status.Phase), p.Status.Phase == corev1.PodFailed
}

// logOf are the last lines of a pod's log.
func logOf(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) string {
	log, err := client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: ptr.To[int64](triedLines)}).Stream(ctx)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	defer log.Close()
	text, err := io.ReadAll(io.LimitReader(log, 4096))
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return strings.Join(strings.Fields(string(text)), " ")
}
