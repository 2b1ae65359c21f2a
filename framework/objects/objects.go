// Package objects creates the objects of manifests in a cluster, waits until they
// are ready, and removes pods.
package objects

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/klient/decoder"
	"sigs.k8s.io/e2e-framework/klient/k8s"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// StartTimeout bounds the start and the removal of our own pods; their images are
// on the nodes.
const StartTimeout = 60 * time.Second

// Client has access to the objects of one cluster.
type Client struct {
	Clientset kubernetes.Interface
	// API is for objects of any kind.
	API client.Client
	// Token is what PodRequest carries, see package guard; empty for none.
	Token string
}

// Decode reads a manifest with ${NAME} filled in.
func Decode(ctx context.Context, manifests fs.FS, file string, values map[string]string) ([]k8s.Object, error) {
	text, err := fs.ReadFile(manifests, file)
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
	return objs, wrap.Errorf(err, "decode manifest %s", file)
}

// Create creates the objects of a manifest, each as change has changed it. One that exists already is an error:
// leftovers of an earlier drill are removed first, not adopted.
func (c Client) Create(ctx context.Context, manifests fs.FS, file string, values map[string]string, change ...func(k8s.Object)) error {
	objs, err := Decode(ctx, manifests, file, values)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		for _, change := range change {
			change(obj)
		}
		if err := c.API.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), err)
		}
	}
	return nil
}

// Apply creates the objects of a manifest, or changes those that exist (server-side apply).
func (c Client) Apply(ctx context.Context, manifests fs.FS, file string, values map[string]string) error {
	objs, err := Decode(ctx, manifests, file, values)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err == nil {
			err = c.API.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}), client.FieldOwner("spotdrill"), client.ForceOwnership)
		}
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), err)
		}
	}
	return nil
}

// EnsureNamespace creates a namespace with labels, once an earlier one of that name
// is deleted.
func (c Client) EnsureNamespace(ctx context.Context, name string, labels ...string) error {
	return wait.Until(ctx, StartTimeout, "namespace "+name, func(ctx context.Context) string {
		namespaces := c.Clientset.CoreV1().Namespaces()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, label := range labels {
			ns.Labels[label] = "true"
		}
		ns, err := namespaces.Create(ctx, ns, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			ns, err = namespaces.Get(ctx, name, metav1.GetOptions{})
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

// PodRequest is a request to a port of a pod through the API server's pod proxy, which every cluster
// has.
func (c Client) PodRequest(verb, namespace, pod, port, path string) *rest.Request {
	request := c.Clientset.CoreV1().RESTClient().Verb(verb).
		Namespace(namespace).Resource("pods").Name(pod + ":" + port).SubResource("proxy").Suffix(path)
	if c.Token != "" {
		request.SetHeader(guard.Header, c.Token)
	}
	return request
}

// RemovePods deletes the selected pods of a namespace without a grace period and
// waits until they are gone; what names them in the error. It deletes repeatedly: a
// controller may have been about to create another pod.
func (c Client) RemovePods(ctx context.Context, namespace string, selected metav1.ListOptions, what string) error {
	now, pods := int64(0), c.Clientset.CoreV1().Pods(namespace)
	return wait.Until(ctx, StartTimeout, what+" to be gone", func(ctx context.Context) string {
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, selected); err != nil && !apierrors.IsNotFound(err) {
			return err.Error()
		}
		list, err := pods.List(ctx, selected)
		if err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if err := c.release(ctx, &list.Items[i]); err != nil {
				return err.Error()
			}
		}
		if len(list.Items) > 0 {
			return fmt.Sprintf("pods that are still there: %d", len(list.Items))
		}
		return ""
	})
}

// Finalizer is on pods that must stay in the API until a drill is over. RemovePods
// removes it.
const Finalizer = "spotdrill.dev/kept"

// release removes our finalizer from a pod that is being deleted. It has no other: Kubernetes
// removes its own.
func (c Client) release(ctx context.Context, p *corev1.Pod) error {
	if p.DeletionTimestamp == nil || !slices.Contains(p.Finalizers, Finalizer) {
		return nil
	}
	_, err := c.Clientset.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return wrap.Errorf(client.IgnoreNotFound(err), "take the finalizer off pod %s/%s", p.Namespace, p.Name)
}

// PodReady waits until a pod is Ready.
func (c Client) PodReady(ctx context.Context, namespace, name string) error {
	return wait.Until(ctx, StartTimeout, "pod "+namespace+"/"+name+" to be Ready", func(ctx context.Context) string {
		pod, err := c.Clientset.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return WhyNotReady(*pod)
	})
}

// WhyNotReady is the state of a pod that is not Ready, or "".
func WhyNotReady(pod corev1.Pod) string {
	if podutils.IsPodReady(&pod) {
		return ""
	}
	why := fmt.Sprintf("phase %s", pod.Status.Phase)
	for _, cond := range pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			why += ", " + cond.Message
		}
	}
	initializing := slices.DeleteFunc(slices.Clone(pod.Status.InitContainerStatuses), func(st corev1.ContainerStatus) bool {
		return st.State.Terminated != nil && st.State.Terminated.ExitCode == 0
	})
	for _, st := range slices.Concat(initializing, pod.Status.ContainerStatuses) {
		if st.State.Waiting != nil {
			why += ", " + st.State.Waiting.Reason + ": " + st.State.Waiting.Message
		}
		if st.State.Terminated != nil {
			why += fmt.Sprintf(", ended with exit code %d", st.State.Terminated.ExitCode)
		}
	}
	return why
}

// whyNotReady is the name and the state of one of the selected pods that is not Ready, or "".
func (c Client) whyNotReady(ctx context.Context, namespace string, selector *metav1.LabelSelector) string {
	pods, err := c.Clientset.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector)})
	if err != nil {
		return ""
	}
	for _, pod := range pods.Items {
		if why := WhyNotReady(pod); why != "" {
			return fmt.Sprintf("; %s on %s: %s", pod.Name, cmp.Or(pod.Spec.NodeName, "no node"), why)
		}
	}
	return ""
}

// DeploymentReady waits until every replica is available and no old one is left.
func (c Client) DeploymentReady(ctx context.Context, namespace, name string) error {
	return wait.Until(ctx, StartTimeout, "Deployment "+namespace+"/"+name, func(ctx context.Context) string {
		d, err := c.Clientset.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		want := ptr.Deref(d.Spec.Replicas, 1)
		if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas != want || d.Status.Replicas != want {
			return fmt.Sprintf("available replicas: %d of %d", d.Status.AvailableReplicas, want) + c.whyNotReady(ctx, namespace, d.Spec.Selector)
		}
		return ""
	})
}

// DaemonSetReady waits until a DaemonSet runs on every worker, as it was changed last.
func (c Client) DaemonSetReady(ctx context.Context, namespace, name string) error {
	return wait.Until(ctx, StartTimeout, "DaemonSet "+namespace+"/"+name, func(ctx context.Context) string {
		d, err := c.Clientset.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		want := d.Status.DesiredNumberScheduled
		if d.Status.ObservedGeneration < d.Generation || want == 0 || d.Status.UpdatedNumberScheduled != want || d.Status.NumberReady != want {
			return fmt.Sprintf("of %d pods, %d are Ready and %d are up to date", want, d.Status.NumberReady, d.Status.UpdatedNumberScheduled) +
				c.whyNotReady(ctx, namespace, d.Spec.Selector)
		}
		return ""
	})
}
