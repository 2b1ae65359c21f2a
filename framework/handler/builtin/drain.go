package builtin

import (
	"context"
	"fmt"
	"log/slog"
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
)

const (
	// lookEvery is the time between two looks at a node, and so between two
	// attempts at a pod that its disruption budget protects.
	lookEvery = time.Second
	// bindingInFlight is how long after the mark the scheduler may still bind a pod to
	// the node: it had decided before it heard of the mark. A node is not empty before.
	bindingInFlight = time.Second
	// lookSeldomEvery applies once the notice's two minutes are over: nothing is
	// urgent any more, the instance is gone or was kept.
	lookSeldomEvery = 10 * time.Second
	noticeLife      = 2 * time.Minute
	lookWithin      = 15 * time.Second // an API server that does not answer is asked anew
	// evictWithin is well above the 10 s for which an API server tries to write a
	// contended budget. One whose client has gone may have counted the eviction and not
	// done it; the budget then waits for that pod for two minutes, the whole notice
	// (DeletionTimeout of the disruption controller).
	evictWithin = 30 * time.Second
	// evictAtOnce bounds the evictions of a node that contend for one budget.
	evictAtOnce = 5
	// sayEvery is the time between two words in the record that its drain is worked on.
	sayEvery = 5 * time.Second
)

// The ways in which a drain ends.
const (
	endDrained     = "drained"
	endRestored    = "restored"    // the record, or the marks, were taken away
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
}

// mark cordons and taints the node and records the drain, in one patch. It returns
// the node and the record that is on it now: r itself, or the one that is there
// already and covers r. It returns no node where that instance is gone. On an error
// the drain may be recorded or not: the answer to the patch may have been lost.
func (d *drainer) mark(ctx context.Context, name string, r drainRecord) (node *corev1.Node, recorded drainRecord, err error) {
	// After any error the node is read again: that tells whether the patch was done.
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

// covers says whether the recorded drain leaves nothing to do for another one: it
// goes on, is of the same notice, or has left no pod on the node that would have to
// go. A drain that was given up is no reason against another one of its notice.
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

// drain evicts what has to leave the node until nothing is left, the node is
// gone or restored, or ctx is done. It never fails: what goes wrong is tried
// again at the next look.
func (d *drainer) drain(ctx context.Context, name string, r drainRecord) {
	log := d.log.With("node", name, "instance", r.Instance, "notice", r.Notice)
	d.metrics.draining.Inc()
	defer d.metrics.draining.Dec()
	told := map[types.UID]bool{}
	for {
		if end := d.look(ctx, log, name, r, told); end != "" {
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

// look does what is to be done on the node now. It returns how the drain ended,
// or nothing while it goes on. told holds the pods whose blocked eviction has
// been reported.
func (d *drainer) look(ctx context.Context, log *slog.Logger, name string, r drainRecord, told map[types.UID]bool) (end string) {
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
	d.evict(ctx, log, node, due(pods, age > d.criticalAfter), told)
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

// say records that a handler is at work on the drain.
func (d *drainer) say(ctx context.Context, node *corev1.Node, r drainRecord) error {
	r.Seen = time.Now().UTC()
	return d.write(ctx, node, &r)
}

// write replaces the node's record, or takes it away where there is none to write. It
// fails where the node was changed since it was read.
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

// end writes the last state into the record. Where that fails the drain goes on,
// and the next look finds the node as it is then.
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

// evict asks for all of the pods, evictAtOnce at a time, without waiting for their
// ends: a slow one holds up no other.
func (d *drainer) evict(ctx context.Context, log *slog.Logger, node *corev1.Node, pods []corev1.Pod, told map[types.UID]bool) {
	refused := make([]error, len(pods))
	var group errgroup.Group
	group.SetLimit(evictAtOnce)
	for i := range pods {
		group.Go(func() error {
			if ctx.Err() == nil {
				refused[i] = d.evictPod(ctx, log, &pods[i])
			}
			return nil
		})
	}
	_ = group.Wait() // what went wrong is in refused
	for i, err := range refused {
		pod := &pods[i]
		if err == nil || told[pod.UID] {
			continue
		}
		told[pod.UID] = true
		log.Info("eviction blocked", "pod", pod.Namespace+"/"+pod.Name, "reason", err.Error())
		d.events.Eventf(node, corev1.EventTypeWarning, "EvictionBlocked", "Pod %s/%s: %s", pod.Namespace, pod.Name, err)
	}
}

// evictPod asks the Eviction API once. It returns an error only where a
// disruption budget stands in the way. A Retry-After of the API server is waited
// for by client-go within the call, as long as evictWithin allows. An eviction that
// was asked for is waited for, also where ctx ends.
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
	}
	return nil
}
