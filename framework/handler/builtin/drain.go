package builtin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

const (
	// lookEvery is the interval between checks of a node, and so between two attempts
	// to evict a pod that its disruption budget protects.
	lookEvery = time.Second
	// bindingInFlight is how long after the mark the scheduler may still bind a pod to
	// the node, because it decided before it saw the mark. A node is not empty before.
	bindingInFlight = time.Second
	// lookSeldomEvery applies after the notice's two minutes: nothing is urgent any
	// more, because the instance is gone or was kept.
	lookSeldomEvery = 10 * time.Second
	noticeLife      = 2 * time.Minute
	lookWithin      = 15 * time.Second // timeout for the API server; then the request is retried
	// evictWithin is well above the 10 s for which an API server tries to write a
	// contended budget. If the client leaves earlier, the API server may count the
	// eviction without doing it. The budget then waits for that pod for two minutes, the
	// whole notice (DeletionTimeout of the disruption controller).
	evictWithin = 30 * time.Second
	// evictAtOnce bounds the parallel evictions of a node, which contend for one budget.
	evictAtOnce = 5
	// sayEvery is the interval between updates of the record during a drain.
	sayEvery = 5 * time.Second
)

// The ways in which a drain ends.
const (
	endDrained     = "drained"
	endRestored    = "restored"    // the record, or the marks, were removed
	endGone        = "gone"        // the Node object was deleted
	endElsewhere   = "elsewhere"   // another replica finished it
	endTimedOut    = "timed-out"   // Config.DrainTimeout
	endInterrupted = "interrupted" // the handler stops; the next one resumes
)

// drainer marks nodes and empties them.
type drainer struct {
	client        kubernetes.Interface
	events        record.EventRecorder
	metrics       *metrics
	log           *slog.Logger
	criticalAfter time.Duration
	timeout       time.Duration // 0: none
	lifecycles    *lifecycles
}

// mark cordons and taints the node and records the drain, in one patch. It returns the
// node and its current record: r itself, or an existing one that covers r. It returns no
// node if that instance is gone. After an error the drain may be recorded or not: the
// answer to the patch may have been lost.
func (d *drainer) mark(ctx context.Context, name string, r drainRecord) (node *corev1.Node, recorded drainRecord, err error) {
	// After any error the node is read again, which shows whether the patch was applied.
	again := func(error) bool { return ctx.Err() == nil }
	err = retry.OnError(retry.DefaultRetry, again, func() error {
		node, recorded = nil, r
		found, err := d.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		if instanceOf(found) != r.Instance {
			return nil
		}
		if old, ok := recordOf(found); ok {
			covered, err := d.covers(ctx, name, old, r)
			if err != nil {
				return err
			}
			if covered {
				node, recorded = found, old
				return nil
			}
		}
		patch, err := markPatch(found, r)
		if err != nil {
			return err
		}
		node, err = d.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return nil, r, fmt.Errorf("mark node %s: %w", name, err)
	}
	return node, recorded, nil
}

// covers reports whether the recorded drain leaves nothing to do for another one: it is
// in progress, is of the same notice, or left no pod on the node that must leave. After
// a drain that was given up, another one of the same notice may start.
func (d *drainer) covers(ctx context.Context, node string, old, r drainRecord) (bool, error) {
	if old.State == stateDraining || old.State == stateDrained && old.Notice == r.Notice {
		return true, nil
	}
	pods, err := d.podsToLeave(ctx, node)
	if err != nil {
		return false, fmt.Errorf("list its pods: %w", err)
	}
	return len(pods) == 0, nil
}

// drain evicts the pods that must leave the node until none is left, the node is gone or
// restored, or ctx is done. It never fails: errors are retried at the next check.
func (d *drainer) drain(ctx context.Context, name string, r drainRecord) {
	log := d.log.With("node", name, "instance", r.Instance, "notice", r.Notice)
	d.metrics.draining.Inc()
	defer d.metrics.draining.Dec()
	reported := map[types.UID]bool{}
	for {
		if end := d.look(ctx, log, name, r, reported); end != "" {
			d.metrics.drains.WithLabelValues(end).Inc()
			log.Info("drain ended", "result", end, "after", time.Since(r.Since).Round(time.Millisecond).String())
			return
		}
		pause := lookEvery
		if time.Since(r.Since) > noticeLife {
			pause = lookSeldomEvery
		}
		if !sleep(ctx, pause) {
			d.metrics.drains.WithLabelValues(endInterrupted).Inc()
			log.Info("drain interrupted; another handler, or the next one, resumes it")
			return
		}
	}
}

// look checks the node and evicts the pods that are due. It returns how the drain ended,
// or nothing while it is in progress. reported has the pods whose blocked eviction was
// reported.
func (d *drainer) look(ctx context.Context, log *slog.Logger, name string, r drainRecord, reported map[types.UID]bool) (end string) {
	looking, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	node, err := d.client.CoreV1().Nodes().Get(looking, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return endGone
	} else if err != nil {
		log.Warn("read node", "error", err)
		return ""
	}
	current, ok := recordOf(node)
	switch {
	case !ok || current.drain() != r.drain():
		return endRestored
	case current.State != stateDraining:
		return endElsewhere
	}
	pods, err := d.podsToLeave(looking, name)
	if err != nil {
		log.Warn("list pods", "error", err)
		return ""
	}
	age := time.Since(r.Since)
	if len(pods) == 0 && age >= bindingInFlight {
		if r.Lifecycle != nil {
			if err := d.lifecycles.complete(ctx, r.Instance, *r.Lifecycle); err != nil {
				log.Warn("the node is drained, and Auto Scaling does not know it yet", "error", err)
				return ""
			}
		}
		return d.end(looking, log, node, r, stateDrained)
	}
	if d.timeout > 0 && age > d.timeout {
		return d.end(looking, log, node, r, stateTimedOut)
	}
	if current.idle() > sayEvery {
		if err := d.say(looking, node, current); err != nil && !apierrors.IsConflict(err) {
			log.Warn("record that the drain goes on", "error", err)
		}
	}
	d.evict(ctx, log, node, due(pods, age > d.criticalAfter), reported)
	return ""
}

func (d *drainer) podsToLeave(ctx context.Context, node string) ([]corev1.Pod, error) {
	list, err := d.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for i := range list.Items {
		if leaving(&list.Items[i]) {
			out = append(out, list.Items[i])
		}
	}
	return out, nil
}

// say records that a handler is working on the drain.
func (d *drainer) say(ctx context.Context, node *corev1.Node, r drainRecord) error {
	r.Seen = time.Now().UTC()
	return d.write(ctx, node, &r)
}

// write replaces the node's record, or removes it if r is nil. It fails if the node was
// changed since it was read.
func (d *drainer) write(ctx context.Context, node *corev1.Node, r *drainRecord) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	patch, err := recordPatch(node, r, nil)
	if err != nil {
		return err
	}
	_, err = d.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// end writes the last state into the record. If that fails, the drain continues with the
// next check of the node.
func (d *drainer) end(ctx context.Context, log *slog.Logger, node *corev1.Node, r drainRecord, state drainState) string {
	r.State, r.Ended = state, time.Now().UTC()
	if err := d.write(ctx, node, &r); err != nil {
		log.Warn("record the drain's end", "error", err)
		return ""
	}
	after := r.Ended.Sub(r.Since)
	if state == stateTimedOut {
		d.events.Eventf(node, corev1.EventTypeWarning, "DrainTimedOut", "Gave up draining after %s (notice %s)", after.Round(time.Second), r.Notice)
		return endTimedOut
	}
	d.metrics.drainTime.Observe(after.Seconds())
	d.events.Eventf(node, corev1.EventTypeNormal, "Drained", "Every evictable pod left within %s (notice %s)", after.Round(time.Millisecond), r.Notice)
	return endDrained
}

// evict requests the eviction of all pods, evictAtOnce at a time, and does not wait until
// they terminate: a slow pod does not delay others.
func (d *drainer) evict(ctx context.Context, log *slog.Logger, node *corev1.Node, pods []corev1.Pod, reported map[types.UID]bool) {
	answers := make([]error, len(pods))
	var group errgroup.Group
	group.SetLimit(evictAtOnce)
	for i := range pods {
		group.Go(func() error {
			if ctx.Err() == nil {
				answers[i] = d.evictPod(ctx, log, &pods[i])
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in answers
	for i, err := range answers {
		pod := &pods[i]
		if err == nil || reported[pod.UID] {
			continue
		}
		reported[pod.UID] = true
		log.Info("eviction blocked", "pod", pod.Namespace+"/"+pod.Name, "reason", err.Error())
		d.events.Eventf(node, corev1.EventTypeWarning, "EvictionBlocked", "Pod %s/%s: %s", pod.Namespace, pod.Name, err)
	}
}

// evictPod calls the Eviction API once. It returns an error only if the API server refuses
// the eviction: because of a disruption budget, or because the pod has two of them, which
// it answers with 500. Within the call, client-go waits for a Retry-After of the API
// server, as long as evictWithin allows. The call is completed even if ctx ends.
func (d *drainer) evictPod(ctx context.Context, log *slog.Logger, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), evictWithin)
	defer cancel()
	err := d.client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		// A StatefulSet's next pod has the same name and must not be hit.
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
	log = log.With("pod", pod.Namespace+"/"+pod.Name)
	switch {
	case err == nil:
		d.metrics.evictions.WithLabelValues("evicted").Inc()
		log.Info("evicted")
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		d.metrics.evictions.WithLabelValues("gone").Inc()
	case apierrors.IsTooManyRequests(err):
		d.metrics.evictions.WithLabelValues("blocked").Inc()
		return err
	default:
		d.metrics.evictions.WithLabelValues("error").Inc()
		log.Warn("evict", "error", err)
		if refused(err) {
			return err
		}
	}
	return nil
}

// refused reports whether the API server answered with this error. Without an answer, the
// eviction may have been done.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer)
}

// criticalPriority is where the system's own priority classes begin
// (system-cluster-critical); users cannot go above 1,000,000,000.
const criticalPriority = 2_000_000_000

// leaving reports whether a drain must evict the pod. Unlike kubectl drain it leaves
// finished pods, which use nothing, and pods that tolerate the taint or the cordon, which
// are meant to stay. It needs no right to read DaemonSets, because a daemon pod whose
// DaemonSet was deleted terminates anyway. It is the handler's own rule and shares no code with history.Evictable,
// by which it is judged: an error in one of them shows.
func leaving(pod *corev1.Pod) bool {
	return !finished(pod) && !mirror(pod) && !daemon(pod) && !tolerates(pod, disruptedTaint()) && !tolerates(pod, cordonTaint())
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// mirror reports whether the pod represents a static pod in the API: evicting it would
// change nothing.
func mirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// daemon pods would return to the node at once: they have the tolerations.
func daemon(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// cordonTaint is what Kubernetes puts on a node that is marked unschedulable.
func cordonTaint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &taint, false)
	})
}

func critical(pod *corev1.Pod) bool {
	if pod.Spec.Priority != nil {
		return *pod.Spec.Priority >= criticalPriority
	}
	return pod.Spec.PriorityClassName == "system-cluster-critical" || pod.Spec.PriorityClassName == "system-node-critical"
}

// due selects, of the pods that must leave, those to evict now: the ones that are not
// terminating yet, and critical ones only when no other is left or their wait is over.
func due(pods []corev1.Pod, criticalToo bool) []corev1.Pod {
	ordinary := false
	for i := range pods {
		ordinary = ordinary || !critical(&pods[i])
	}
	var out []corev1.Pod
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil && (!critical(&pod) || !ordinary || criticalToo) {
			out = append(out, pod)
		}
	}
	return out
}
