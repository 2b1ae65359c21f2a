package run

import (
	"context"
	"embed"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/klient/decoder"
	"sigs.k8s.io/e2e-framework/klient/k8s"

	"github.com/spotdrill/spotdrill/framework/cluster"
)

//go:embed manifests
var manifests embed.FS

// Namespace is ours in the cluster. Those of drills' workloads are others: they begin
// with workloadPrefix.
const (
	Namespace      = "spotdrill"
	workloadPrefix = "spotdrill-workload"
)

// startTimeout bounds the start of pods of ours; images are on the nodes.
const startTimeout = 60 * time.Second

// objects decodes one of the embedded manifests with ${NAME} filled in.
func objects(ctx context.Context, file string, values map[string]string) ([]k8s.Object, error) {
	text, err := manifests.ReadFile("manifests/" + file)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	missing := ""
	filled := os.Expand(string(text), func(name string) string {
		v, ok := values[name]
		if !ok {
			missing = name
		}
		return v
	})
	if missing != "" {
		return nil, fmt.Errorf("manifest %s: no value for ${%s}", file, missing)
	}
	objs, err := decoder.DecodeAll(ctx, strings.NewReader(filled))
	if err != nil {
		return nil, fmt.Errorf("decode manifest %s: %w", file, err)
	}
	return objs, nil
}

// create makes the objects of a manifest. Ones that exist already are an error:
// leftovers of an earlier drill are removed before, not adopted.
func (s *System) create(ctx context.Context, file string, values map[string]string) error {
	objs, err := objects(ctx, file, values)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if err := s.Cluster.Klient.Resources().Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), err)
		}
	}
	return nil
}

// ensureNamespace makes a namespace with labels, waiting for one that is going away.
func (s *System) ensureNamespace(ctx context.Context, name string, labels ...string) error {
	return cluster.Until(ctx, startTimeout, "namespace "+name, func(ctx context.Context) string {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, label := range labels {
			ns.Labels[label] = "true"
		}
		err := s.Cluster.Klient.Resources().Create(ctx, ns)
		if apierrors.IsAlreadyExists(err) {
			err = s.Cluster.Klient.Resources().Get(ctx, name, "", ns)
		}
		switch {
		case err != nil:
			return err.Error()
		case ns.DeletionTimestamp != nil:
			return "it is being deleted"
		}
		return ""
	})
}

// removePod deletes a pod of ours at once and waits until it is gone.
func (s *System) removePod(ctx context.Context, namespace, name string) error {
	now := int64(0)
	pods := s.Cluster.Clientset.CoreV1().Pods(namespace)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove pod %s: %w", name, err)
	}
	return cluster.Until(ctx, startTimeout, "pod "+name+" to be gone", func(ctx context.Context) string {
		return s.whyThere(ctx, name, namespace, &corev1.Pod{})
	})
}

// removePods deletes the chosen pods of a namespace at once and waits until they are
// gone; what names them. It asks again and again: a controller may have been about to
// make another.
func (s *System) removePods(ctx context.Context, namespace string, chosen metav1.ListOptions, what string) error {
	now, pods := int64(0), s.Cluster.Clientset.CoreV1().Pods(namespace)
	return cluster.Until(ctx, startTimeout, what+" to be gone", func(ctx context.Context) string {
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, chosen); err != nil && !apierrors.IsNotFound(err) {
			return err.Error()
		}
		list, err := pods.List(ctx, chosen)
		if err != nil {
			return err.Error()
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("%d pods are still there", len(list.Items))
		}
		return ""
	})
}

// whyThere says that an object is still there, or "".
func (s *System) whyThere(ctx context.Context, name, namespace string, into k8s.Object) string {
	err := s.Cluster.Klient.Resources().Get(ctx, name, namespace, into)
	switch {
	case apierrors.IsNotFound(err):
		return ""
	case err != nil:
		return err.Error()
	}
	return "it is still there"
}

// podReady waits until a pod of ours is Ready.
func (s *System) podReady(ctx context.Context, name string) error {
	return cluster.Until(ctx, startTimeout, "pod "+Namespace+"/"+name+" to be Ready", func(ctx context.Context) string {
		var pod corev1.Pod
		if err := s.Cluster.Klient.Resources().Get(ctx, name, Namespace, &pod); err != nil {
			return err.Error()
		}
		return whyNotReady(pod)
	})
}

// whyNotReady says what a pod is at instead of being Ready, or "".
func whyNotReady(pod corev1.Pod) string {
	if podutils.IsPodReady(&pod) {
		return ""
	}
	why := fmt.Sprintf("phase %s", pod.Status.Phase)
	for _, cond := range pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			why += ", " + cond.Message
		}
	}
	for _, st := range pod.Status.ContainerStatuses {
		if st.State.Waiting != nil {
			why += ", " + st.State.Waiting.Reason + ": " + st.State.Waiting.Message
		}
		if st.State.Terminated != nil {
			why += fmt.Sprintf(", ended with exit code %d", st.State.Terminated.ExitCode)
		}
	}
	return why
}

// deploymentReady waits until every replica is available and no other is left.
func (s *System) deploymentReady(ctx context.Context, namespace, name string) error {
	return cluster.Until(ctx, startTimeout, "Deployment "+namespace+"/"+name, func(ctx context.Context) string {
		var d appsv1.Deployment
		if err := s.Cluster.Klient.Resources().Get(ctx, name, namespace, &d); err != nil {
			return err.Error()
		}
		want := ptr.Deref(d.Spec.Replicas, 1)
		if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas != want || d.Status.Replicas != want {
			return fmt.Sprintf("%d of %d replicas are available", d.Status.AvailableReplicas, want)
		}
		return ""
	})
}

// daemonReady waits until the DaemonSet runs on every worker.
func (s *System) daemonReady(ctx context.Context, namespace, name string) error {
	return cluster.Until(ctx, startTimeout, "DaemonSet "+namespace+"/"+name, func(ctx context.Context) string {
		var d appsv1.DaemonSet
		if err := s.Cluster.Klient.Resources().Get(ctx, name, namespace, &d); err != nil {
			return err.Error()
		}
		if want := d.Status.DesiredNumberScheduled; want == 0 || d.Status.NumberReady != want {
			return fmt.Sprintf("%d of %d pods are Ready", d.Status.NumberReady, want)
		}
		return ""
	})
}
