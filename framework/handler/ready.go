package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

// shownLines is how much of a log an error shows.
const shownLines = 20

// Workload is the NAMESPACE/NAME of the handler's Deployment or DaemonSet; empty if it installs
// nothing.
func (h Installation) Workload() string {
	return fill(cmp.Or(h.Ready.Deployment, h.Ready.DaemonSet), h.Settings.values())
}

// WaitReady waits until the handler is ready, as it is after Install. One that runs on each node
// may not be on a node that was restored.
func (h Installation) WaitReady(ctx context.Context) error {
	return wrap.Errorf(h.waitReady(ctx), "handler %s", h.Name)
}

// waitReady waits until every replica of the handler is available and the handler knows its
// workers.
func (h Installation) waitReady(ctx context.Context) error {
	r := h.running()
	seen, err := h.waitAvailable(ctx, r)
	if err == nil {
		err = h.waitWorkers(ctx)
	}
	if err == nil {
		return nil
	}
	// The context of the wait may be over, so the state is read with another one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return fmt.Errorf("%w\n%s", err, r.describe(ctx, seen))
}

// waitAvailable waits until every replica is available, and returns the workload as last seen.
func (d Description) waitAvailable(ctx context.Context, r running) (workload, error) {
	timeout := d.Ready.Timeout.D()
	var seen workload
	var last error
	err := until(ctx, timeout, func(ctx context.Context) (bool, error) {
		now, err := r.read(ctx)
		if ctx.Err() != nil || err != nil && strings.Contains(err.Error(), "would exceed context deadline") {
			return false, nil // cut short, the latter by client-go: this is no error of the workload
		}
		last = err
		if err != nil {
			return false, nil
		}
		seen = now
		return seen.available, nil
	})
	if err != nil {
		field := "ready.deployment"
		if r.daemonSet {
			field = "ready.daemonSet"
		}
		return seen, fmt.Errorf("%s: %s is not ready after %s: %w", d.At(field), r, timeout, errors.Join(last, err))
	}
	return seen, nil
}

// describe shows why the handler is not ready, as far as the cluster shows it.
func (r running) describe(ctx context.Context, seen workload) string {
	var b strings.Builder
	for _, line := range seen.state {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	pods, err := r.pods(ctx)
	if err != nil {
		fmt.Fprintf(&b, "  pods: %v\n", err)
	}
	for i := range pods {
		fmt.Fprintf(&b, "  pod %s on %q: %s\n", pods[i].Name, pods[i].Spec.NodeName, state(&pods[i]))
		log, err := r.podLog(ctx, &pods[i], corev1.PodLogOptions{TailLines: new(int64(shownLines))})
		if err != nil {
			log = err.Error()
		}
		for line := range strings.Lines(log) {
			fmt.Fprintf(&b, "    %s\n", strings.TrimRight(line, "\n"))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// state is a pod's phase and the reasons why it is not ready.
func state(pod *corev1.Pod) string {
	out := []string{string(pod.Status.Phase)}
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue && c.Message != "" {
			out = append(out, c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			out = append(out, strings.TrimSpace(c.Name+" waits: "+w.Reason+" "+w.Message))
		}
		if t := c.State.Terminated; t != nil {
			out = append(out, fmt.Sprintf("%s ended with exit code %d: %s", c.Name, t.ExitCode, t.Reason))
		}
	}
	return strings.Join(out, "; ")
}

func (r running) pods(ctx context.Context) ([]corev1.Pod, error) {
	w, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(w.selector)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", r, err)
	}
	return list.Items, nil
}

// podLog is the log of every container of a pod. If a container was restarted, the log
// before the restart comes first.
func (r running) podLog(ctx context.Context, pod *corev1.Pod, options corev1.PodLogOptions) (string, error) {
	var b strings.Builder
	var errs []error
	for _, status := range pod.Status.ContainerStatuses {
		for _, previous := range []bool{true, false} {
			if previous && status.RestartCount == 0 {
				continue
			}
			options.Container, options.Previous = status.Name, previous
			stream, err := r.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).Stream(ctx)
			if err != nil {
				errs = append(errs, fmt.Errorf("read the log of %s/%s: %w", pod.Name, status.Name, err))
				continue
			}
			_, err = io.Copy(&b, stream)
			errs = append(errs, err, stream.Close())
		}
	}
	return b.String(), errors.Join(errs...)
}

// Selector is the namespace and the label selector of the handler's pods; both are empty if it installs nothing.
func (h Installation) Selector(ctx context.Context) (namespace, selector string, err error) {
	if h.Workload() == "" {
		return "", "", nil
	}
	r := h.running()
	w, err := r.read(ctx)
	if err != nil {
		return "", "", fmt.Errorf("handler %s: %w", h.Name, err)
	}
	return r.namespace, metav1.FormatLabelSelector(w.selector), nil
}
