package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// disturb does something to the handler under test, and returns when it is done.
func (r *runner) disturb(ctx context.Context, d scenarios.Disturb) error {
	under, _ := r.sys.Installed()
	config, settings := r.sys.Cluster.Config, r.sys.Settings
	pods, err := under.Pods(ctx, config, settings)
	if err != nil {
		return fmt.Errorf("disturb %s: %w", d.Name, err)
	}
	if len(pods) == 0 {
		return fmt.Errorf("disturb %s: handler %s has no pod", d.Name, under.Name)
	}
	for i := range pods {
		r.rec.Record(history.Event{
			Kind: history.HandlerDisturbed, Key: d.Name, Reason: string(d.Handler),
			Pod: pods[i].Namespace + "/" + pods[i].Name, UID: string(pods[i].UID), Node: pods[i].Spec.NodeName,
		})
	}
	dropped := 0
	switch d.Handler {
	case history.KillHandler:
		err = inParallel(ctx, pods, r.sys.Cluster.Kill)
	case history.UpdateHandler:
		err = under.Update(ctx, config, settings)
	case history.ScaleHandler:
		err = under.Scale(ctx, config, settings, d.Replicas)
	case history.CutOffHandler:
		dropped, err = r.cutOff(ctx, pods, d)
	}
	if err != nil {
		return fmt.Errorf("disturb %s: %w", d.Name, err)
	}
	r.rec.Record(history.Event{Kind: history.HandlerLeftAlone, Key: d.Name, Reason: string(d.Handler), Numbers: history.Numbers{history.Dropped: float64(dropped)}})
	return nil
}

// cutOff drops what the pods send to the Kubernetes API for the step's time, and
// returns how many packets that were. It is undone in any case.
func (r *runner) cutOff(ctx context.Context, pods []corev1.Pod, d scenarios.Disturb) (dropped int, err error) {
	defer func() {
		for _, p := range pods {
			n, undo := r.sys.Cluster.Reconnect(context.WithoutCancel(ctx), p)
			dropped += n
			if err == nil {
				err = undo
			}
		}
	}()
	if err := inParallel(ctx, pods, r.sys.Cluster.CutOff); err != nil {
		return 0, err
	}
	return 0, r.sleepUntil(ctx, r.rec.Clock().Now()+d.For.D())
}
