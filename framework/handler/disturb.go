package handler

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// updatedAnnotation on the pod template triggers a rolling update.
const updatedAnnotation = "spotdrill.dev/updated"

// Pods are the handler's pods; none if it installs nothing.
func (h Installation) Pods(ctx context.Context) ([]corev1.Pod, error) {
	if h.Workload() == "" {
		return nil, nil
	}
	return h.running().pods(ctx)
}

// Update does a rolling update of the handler to the same template and returns when every new
// replica is available and no old one is left.
func (h Installation) Update(ctx context.Context) (err error) {
	defer func() { err = wrap.Errorf(err, "update handler %s", h.Name) }()
	r := h.running()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, updatedAnnotation, time.Now().Format(time.RFC3339Nano))
	if err := r.patch(ctx, types.StrategicMergePatchType, patch); err != nil {
		return err
	}
	return h.waitReady(ctx)
}

// Scale scales the handler and returns when all replicas are available.
func (h Installation) Scale(ctx context.Context, replicas int) (err error) {
	defer func() { err = wrap.Errorf(err, "scale handler %s", h.Name) }()
	r := h.running()
	if err := r.scale(ctx, int32(replicas)); err != nil {
		return err
	}
	return h.waitReady(ctx)
}

// Pause leaves the handler without a pod, and returns when its pods are gone. Resume gives it as many
// as it had.
func (h Installation) Pause(ctx context.Context) (resume func(context.Context) error, err error) {
	defer func() { err = wrap.Errorf(err, "pause handler %s", h.Name) }()
	r := h.running()
	had, err := r.pods(ctx)
	if err != nil {
		return nil, err
	}
	resume = func(ctx context.Context) error { return h.Scale(ctx, len(had)) }
	if err = r.scale(ctx, 0); err == nil {
		err = r.waitGone(ctx, "")
	}
	if err != nil {
		return nil, errors.Join(err, resume(context.WithoutCancel(ctx)))
	}
	return resume, nil
}

// WaitGone waits until no pod of the handler is left on the node.
func (h Installation) WaitGone(ctx context.Context, node string) error {
	return h.running().waitGone(ctx, node)
}

// goneTimeout is more than the grace period of any handler known here.
const goneTimeout = 75 * time.Second

// waitGone waits until no pod is left on the node, or on any if it is empty. A pod that is terminating
// still acts.
func (r running) waitGone(ctx context.Context, node string) error {
	var left []string
	err := until(ctx, goneTimeout, func(ctx context.Context) (bool, error) {
		pods, err := r.pods(ctx)
		left = nil
		for i := range pods {
			if node == "" || pods[i].Spec.NodeName == node {
				left = append(left, pods[i].Name)
			}
		}
		return len(left) == 0, err
	})
	return wrap.Errorf(err, "pods of %s that are left after %s: %v", r, goneTimeout, left)
}

// Retire removes the pod for good: the handler gets one replica less, and the ReplicaSet
// controller deletes the pod that is cheapest to delete. It returns when the others are
// available; the pod may still be terminating.
func (h Installation) Retire(ctx context.Context, pod string) (err error) {
	defer func() { err = wrap.Errorf(err, "retire %s of handler %s", pod, h.Name) }()
	r := h.running()
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) < 2 {
		return errors.New("it is the only replica")
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"-1000000"}}}`, corev1.PodDeletionCost)
	if _, err := r.client.CoreV1().Pods(r.namespace).Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("set its deletion cost: %w", err)
	}
	return h.Scale(ctx, len(pods)-1)
}

// Move moves the handler to a spot node with a rolling update. Pods that replace those
// there may run on any spot node. Only another Install puts the handler back where its
// description has it.
func (h Installation) Move(ctx context.Context, node string) (err error) {
	defer func() { err = wrap.Errorf(err, "move handler %s to %s", h.Name, node) }()
	r := h.running()
	patch := fmt.Appendf(nil, moved, node)
	if err := r.patch(ctx, types.MergePatchType, patch); err != nil {
		return err
	}
	if err := h.waitReady(ctx); err != nil {
		return err
	}
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		if p := &pods[i]; p.DeletionTimestamp == nil && p.Spec.NodeName != node {
			return fmt.Errorf("the scheduler put %s on %s", p.Name, p.Spec.NodeName)
		}
	}
	return nil
}

// moved replaces the node selector and affinity of the pods: on spot nodes, and on a certain
// one if that is possible.
const moved = `{"spec":{"template":{"spec":{"nodeSelector":{"nodegroup":null,"` + history.CapacityLabel + `":"` + history.Spot + `"},` +
	`"affinity":{"podAntiAffinity":null,"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":null,` +
	`"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,"preference":{"matchExpressions":` +
	`[{"key":"kubernetes.io/hostname","operator":"In","values":[%q]}]}}]}}}}}}`

func (r running) scale(ctx context.Context, replicas int32) error {
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: r.name, Namespace: r.namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	_, err := r.client.AppsV1().Deployments(r.namespace).UpdateScale(ctx, r.name, scale, metav1.UpdateOptions{})
	return wrap.Errorf(err, "scale Deployment %s/%s to %d", r.namespace, r.name, replicas)
}
