package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// disturb does something to the handler under test, and returns when it is done.
func (r *drilling) disturb(ctx context.Context, d scenarios.Disturb) error {
	pods, err := r.installed.Pods(ctx, r.Cluster.Config, r.settings)
	if err != nil {
		return fmt.Errorf("disturb %s: %w", d.Name, err)
	}
	if len(pods) == 0 {
		return fmt.Errorf("disturb %s: handler %s has no pod", d.Name, r.installed.Name)
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
		err = together(ctx, each(pods, r.Cluster.Kill)...)
	case history.UpdateHandler:
		err = r.installed.Update(ctx, r.Cluster.Config, r.settings)
	case history.ScaleHandler:
		err = r.installed.Scale(ctx, r.Cluster.Config, r.settings, d.Replicas)
	case history.CutOffHandler:
		dropped, err = r.cutOff(ctx, pods, d)
	}
	if err != nil {
		return fmt.Errorf("disturb %s: %w", d.Name, err)
	}
	r.rec.Record(history.Event{Kind: history.HandlerLeftAlone, Key: d.Name, Reason: string(d.Handler), Numbers: history.Numbers{history.Dropped: float64(dropped)}})
	return nil
}

// cutOff drops what the pods send to the Kubernetes API for the time that is
// asked for, and says how many packets that were. It is undone however it ends.
func (r *drilling) cutOff(ctx context.Context, pods []corev1.Pod, d scenarios.Disturb) (dropped int, err error) {
	defer func() {
		for _, p := range pods {
			n, undo := r.Cluster.Reconnect(context.WithoutCancel(ctx), p)
			if dropped += n; err == nil {
				err = undo
			}
		}
	}()
	if err := together(ctx, each(pods, r.Cluster.CutOff)...); err != nil {
		return 0, err
	}
	return 0, r.sleepUntil(ctx, r.rec.Clock().Now()+d.For.D())
}
