// Package kubeproxy replaces the image of a cluster's kube-proxy, and puts the original one back.
package kubeproxy

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

const (
	// readyTimeout bounds the wait until every node runs the image.
	readyTimeout = 2 * time.Minute

	name = "kube-proxy" // of the DaemonSet and of its container
	// originalImage is the annotation of kube-proxy's DaemonSet that keeps its own image
	// while another one runs, also over a run that is killed.
	originalImage = "spotdrill.dev/original-image"
)

// Set replaces the image of kube-proxy, which all nodes must have, and waits
// until every node's pod runs it. Restore puts the original one back.
func Set(ctx context.Context, client kubernetes.Interface, ref string) error {
	return replace(ctx, client, func(d *appsv1.DaemonSet) string {
		if _, kept := d.Annotations[originalImage]; !kept {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, originalImage, imageOf(d.Spec.Template.Spec.Containers, name))
		}
		return ref
	})
}

// Restore puts the image back that kube-proxy had before Set. Nothing
// changes if it has that one.
func Restore(ctx context.Context, client kubernetes.Interface) error {
	d, err := read(ctx, client)
	if err != nil {
		return err
	}
	if d.Annotations[originalImage] == "" {
		return nil
	}
	return replace(ctx, client, func(d *appsv1.DaemonSet) string {
		own := d.Annotations[originalImage]
		delete(d.Annotations, originalImage)
		return own
	})
}

// Image returns the reference of the image that kube-proxy runs.
func Image(ctx context.Context, client kubernetes.Interface) (string, error) {
	d, err := read(ctx, client)
	if err != nil {
		return "", err
	}
	return imageOf(d.Spec.Template.Spec.Containers, name), nil
}

func read(ctx context.Context, client kubernetes.Interface) (*appsv1.DaemonSet, error) {
	d, err := client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
	return d, wrap.Errorf(err, "read DaemonSet kube-proxy")
}

// replace sets the image that change returns, and waits until every pod has it
// and is available.
func replace(ctx context.Context, client kubernetes.Interface, change func(*appsv1.DaemonSet) (image string)) error {
	image, generation := "", int64(0)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := read(ctx, client)
		if err != nil {
			return err
		}
		image = change(d)
		setImage(d.Spec.Template.Spec.Containers, name, image)
		if d, err = client.AppsV1().DaemonSets(d.Namespace).Update(ctx, d, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("set the image of kube-proxy: %w", err)
		}
		generation = d.Generation
		return nil
	})
	if err != nil {
		return err
	}
	// One pod after the other is replaced.
	return wait.Until(ctx, readyTimeout, "kube-proxy with the image "+image, func(ctx context.Context) string {
		d, err := read(ctx, client)
		if err != nil {
			return err.Error()
		}
		return whyNotRolledOut(d, generation)
	})
}

// whyNotRolledOut returns why not every node runs the DaemonSet's present template, or "".
func whyNotRolledOut(d *appsv1.DaemonSet, generation int64) string {
	s := d.Status
	switch {
	case s.ObservedGeneration < generation:
		return "its controller has not seen the change"
	case s.DesiredNumberScheduled == 0 || s.UpdatedNumberScheduled < s.DesiredNumberScheduled:
		return fmt.Sprintf("replaced pods: %d of %d", s.UpdatedNumberScheduled, s.DesiredNumberScheduled)
	case s.NumberAvailable < s.DesiredNumberScheduled:
		return fmt.Sprintf("available pods: %d of %d", s.NumberAvailable, s.DesiredNumberScheduled)
	}
	return ""
}

func imageOf(containers []corev1.Container, name string) string {
	for _, c := range containers {
		if c.Name == name {
			return c.Image
		}
	}
	return ""
}

func setImage(containers []corev1.Container, name, image string) {
	for i := range containers {
		if containers[i].Name == name {
			containers[i].Image = image
		}
	}
}
