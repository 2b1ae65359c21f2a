package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/scenarios"
)

// signalled is how long a deleted pod's processes may take to get SIGTERM: the kubelet sees
// the deletion first. What a step does next, they do after it.
const signalled = 3 * time.Second

// disturb does something to the handler under test, and returns when it is done.
func (r *runner) disturb(ctx context.Context, d scenarios.Do) error {
	under := r.sys.InCluster(r.under())
	pods, err := under.Pods(ctx)
	if err != nil {
		return fmt.Errorf("disturb %s: %w", d.Name, err)
	}
	if len(pods) == 0 {
		return fmt.Errorf("disturb %s: handler %s has no pod", d.Name, under.Name)
	}
	if d.Verb == scenarios.Retire {
		if pods, err = r.draining(ctx, pods); err != nil {
			return fmt.Errorf("disturb %s: %w", d.Name, err)
		}
	}
	for i := range pods {
		r.rec.Record(history.NewHandlerDisturbed(d.Name, disturbance(d), history.Pod(pods[i].Namespace+"/"+pods[i].Name), history.UID(string(pods[i].UID)), history.Node(pods[i].Spec.NodeName)))
	}
	switch d.Verb {
	case scenarios.Kill:
		err = inParallel(ctx, pods, r.sys.Cluster.Kill)
	case scenarios.Restart:
		err = under.Update(ctx)
	case scenarios.Scale:
		err = under.Scale(ctx, d.Replicas)
	case scenarios.Delete:
		if err = inParallel(ctx, pods, r.sys.Cluster.DeletePod); err == nil {
			err = r.sleepUntil(ctx, r.rec.Clock().Now()+signalled)
		}
	case scenarios.Retire:
		err = under.Retire(ctx, pods[0].Name)
	case scenarios.Move:
		err = under.Move(ctx, r.nodes[d.Node].Name)
	case scenarios.CutOff:
		return r.cutOff(ctx, pods, d)
	case scenarios.Stop:
		return r.stop(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("disturb %s: %w", d.Name, err)
	}
	r.leftAlone(d, 0)
	return nil
}

// draining returns, of the handler's pods, the one that last changed a node or evicted a
// pod, as the API server's audit log has it.
func (r *runner) draining(ctx context.Context, pods []corev1.Pod) ([]corev1.Pod, error) {
	requests, err := r.requests(ctx)
	if err != nil {
		return nil, err
	}
	for _, change := range slices.Backward(requests.Changes) {
		about := change.Of.Resource == "nodes" || change.Verb == recording.Evict
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == change.By })
		if about && i >= 0 {
			return pods[i : i+1], nil
		}
	}
	return nil, errors.New("the audit log does not show which of the handler's pods drains")
}

func (r *runner) leftAlone(d scenarios.Do, dropped int) {
	r.rec.Record(history.NewHandlerLeftAlone(d.Name, disturbance(d), history.With(history.Numbers{history.Dropped: float64(dropped)})))
}

// cutOff drops what the pods send to the Kubernetes API for the step's time.
func (r *runner) cutOff(ctx context.Context, pods []corev1.Pod, d scenarios.Do) error {
	if err := inParallel(ctx, pods, r.sys.Cluster.CutOff); err != nil {
		return errors.Join(fmt.Errorf("disturb %s: %w", d.Name, err), r.reconnect(context.WithoutCancel(ctx), pods, d))
	}
	return r.lasting(ctx, d, func(ctx context.Context) error { return r.reconnect(ctx, pods, d) })
}

// lasting waits until the time of a disturbance is over, and undoes it in any case. With Meanwhile
// it does not wait for that: the steps do at their end.
func (r *runner) lasting(ctx context.Context, d scenarios.Do, undo func(context.Context) error) error {
	until := r.rec.Clock().Now() + d.For.D()
	wait := func() error { return errors.Join(r.sleepUntil(ctx, until), undo(context.WithoutCancel(ctx))) }
	if d.Meanwhile {
		r.meanwhile.Go(wait)
		return nil
	}
	return wait()
}

// stop leaves the handler without a pod for the step's time.
func (r *runner) stop(ctx context.Context, d scenarios.Do) error {
	resume, err := r.sys.InCluster(r.under()).Pause(ctx)
	if err != nil {
		return fmt.Errorf("disturb %s: %w", d.Name, err)
	}
	return r.lasting(ctx, d, func(ctx context.Context) error {
		if err := resume(ctx); err != nil {
			return fmt.Errorf("disturb %s: %w", d.Name, err)
		}
		r.leftAlone(d, 0)
		return nil
	})
}

// reconnect undoes cutOff, and records how many packets were dropped.
func (r *runner) reconnect(ctx context.Context, pods []corev1.Pod, d scenarios.Do) error {
	dropped := 0
	for i := range pods {
		n, err := r.sys.Cluster.Reconnect(ctx, pods[i])
		if err != nil {
			return fmt.Errorf("disturb %s: %w", d.Name, err)
		}
		dropped += n
	}
	r.leftAlone(d, dropped)
	return nil
}

// reconfigure lets the handler remove nodes without a notice.
func (r *runner) reconfigure(ctx context.Context, c scenarios.Do) error {
	under, err := r.sys.WithWorkers(ctx, r.under())
	if err != nil {
		return fmt.Errorf("reconfiguration %s: %w", c.Name, err)
	}
	if len(c.Disrupts) == 0 {
		r.rec.Record(history.NewHandlerReconfigured(c.Name, r.Scenario.Feature))
	}
	for _, name := range c.Disrupts {
		r.rec.Record(history.NewHandlerReconfigured(c.Name, r.Scenario.Feature, history.Node(r.nodes[name].Name)))
	}
	if err := under.Reconfigure(ctx); err != nil {
		return fmt.Errorf("reconfiguration %s: %w", c.Name, err)
	}
	return nil
}
