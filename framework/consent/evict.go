package consent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	poll = time.Second
	// evictRetry is how long kubectl drain waits after an eviction that was refused.
	evictRetry = 5 * time.Second
	// evictTimeout bounds how long evictions are refused with none being accepted and no pod
	// gone meanwhile.
	evictTimeout = 2 * time.Minute
	// drainTimeout bounds a drain. The grace periods of most pods are far shorter.
	drainTimeout = 10 * time.Minute
)

// move evicts pods of a node. It differs from kubectl drain in one thing: an eviction names the
// UID of its pod. kubectl evicts by name and, after a refusal, can evict a pod of a StatefulSet a
// second time, on the node that it moved to.
type move struct {
	client   kubernetes.Interface
	node     string
	report   func(string)
	accepted bool // the move is over when every eviction is accepted, not when the pods are gone

	pods     []*leaving
	progress time.Time // when an eviction was accepted last, or a pod was gone
	reading  error     // why the pods could not be listed the last time
}

type leaving struct {
	pod     corev1.Pod
	asked   bool // its eviction was accepted
	tries   int
	refusal error
	next    time.Time // when to try again
}

func newMove(client kubernetes.Interface, node string, pods []corev1.Pod, report func(string)) *move {
	m := &move{client: client, node: node, report: report, progress: time.Now()}
	for _, p := range pods {
		m.pods = append(m.pods, &leaving{pod: p})
	}
	return m
}

func (m *move) run(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, poll, drainTimeout, true, m.round)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("aborted; %s: %w", m.left(), ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w from node %s in %s: %s", ErrNotMoved, m.node, drainTimeout, m.left())
	}
	return err
}

// round finds out which pods are left, and requests the evictions that are due.
func (m *move) round(ctx context.Context) (done bool, err error) {
	on, err := podsOn(ctx, m.client, m.node)
	if m.reading = err; err != nil {
		return false, nil
	}
	m.pods = slices.DeleteFunc(m.pods, func(l *leaving) bool {
		at := slices.IndexFunc(on, func(p corev1.Pod) bool { return p.UID == l.pod.UID })
		if at >= 0 && !finished(on[at]) {
			l.asked = l.asked || on[at].DeletionTimestamp != nil
			return false
		}
		m.progress = time.Now()
		m.report("pod " + name(l.pod) + " is gone")
		return true
	})
	for _, l := range m.pods {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if l.asked || time.Now().Before(l.next) {
			continue
		}
		if err := m.ask(ctx, l); err != nil {
			return false, err
		}
	}
	waits := slices.ContainsFunc(m.pods, func(l *leaving) bool { return !l.asked })
	if waits && time.Since(m.progress) >= evictTimeout {
		return false, fmt.Errorf("%w from node %s: for %s no eviction was accepted; %s", ErrNotMoved, m.node, evictTimeout, m.left())
	}
	return len(m.pods) == 0 || m.accepted && !waits, nil
}

// ask requests an eviction once. After an error there is no other attempt.
func (m *move) ask(ctx context.Context, l *leaving) error {
	l.tries++
	err := m.client.PolicyV1().Evictions(l.pod.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: l.pod.Namespace, Name: l.pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(l.pod.UID))},
	})
	switch {
	case err == nil:
		l.asked, m.progress = true, time.Now()
		m.report("evicted pod " + name(l.pod))
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		l.asked = true // it is gone, or goes with its namespace
	case mayPass(err):
		l.refusal, l.next = err, time.Now().Add(evictRetry)
		m.report(fmt.Sprintf("the eviction of pod %s was refused, and is tried again in %s: %v", name(l.pod), evictRetry, err))
	default:
		return fmt.Errorf("evict pod %s: %w", name(l.pod), err)
	}
	return nil
}

// mayPass reports whether the same request may succeed later. A conflict is that of the UID, of a
// pod that is then no longer listed, or one of two evictions with the same budget.
func mayPass(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err)
}

// left describes what became of the pods that are still there.
func (m *move) left() string {
	var out []string
	for _, l := range m.pods {
		switch {
		case l.asked:
			out = append(out, name(l.pod)+" is evicted and terminates")
		case l.refusal != nil:
			out = append(out, fmt.Sprintf("%s: %s refused, the last with: %v", name(l.pod), history.Count(l.tries, "eviction"), l.refusal))
		default:
			out = append(out, name(l.pod)+" is not evicted")
		}
	}
	if m.reading != nil {
		out = append(out, m.reading.Error())
	}
	return cmp.Or(few(out), "no pod is left")
}
