package clusterdns

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/addon"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wait"
)

// What the add-on coredns of Amazon EKS has of its own, as its versions for Kubernetes 1.30 to 1.34
// do. It sets no grace period.
const (
	addOnLameduck = 5 * time.Second
	addOnReplicas = 2
	addOnPeriod   = 10 // s
	addOnFailures = 3
	// addOnVersion is an annotation of the pods of an upgraded add-on, in place of another image.
	addOnVersion = "spotdrill.dev/addon-version"
)

// Upgrade upgrades the add-on coredns, as the stand-in for EKS's manager of add-ons: by
// server-side apply, as the field manager eks. A lameduck other than 0 is a configuration value. It
// returns when all pods run the next version. Set takes the upgrade back. Errors:
// addon.ErrConflict if nothing was changed because of conflicts.
func (d *CoreDNS) Upgrade(ctx context.Context, mode history.ConflictMode, lameduck time.Duration) error {
	cm, deploy, err := d.read(ctx)
	if err != nil {
		return err
	}
	corefile, err := coredns.WithLameduck(withoutEdits(cm.Data["Corefile"]), cmp.Or(lameduck, addOnLameduck))
	if err != nil {
		return err
	}
	version := time.Now().UTC().Format(time.RFC3339Nano)
	objects := addOn(deploy, corefile, version)
	if err := addon.Upgrade(ctx, d.api, objects, addon.Manager, mode); err != nil {
		return fmt.Errorf("upgrade the add-on coredns: %w", err)
	}
	return wait.Until(ctx, readyTimeout, "the pods of the upgraded add-on", func(ctx context.Context) string { return d.whyNotUpgraded(ctx, version) })
}

// addOn are the objects of a version of the add-on.
func addOn(deploy *appsv1.Deployment, corefile, version string) []*unstructured.Unstructured {
	object := func(apiVersion, kind string, content map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: content}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetName(name)
		u.SetNamespace(namespace)
		return u
	}
	labels := map[string]any{}
	for key, value := range deploy.Spec.Selector.MatchLabels {
		labels[key] = value
	}
	probe := map[string]any{
		"httpGet":       map[string]any{"path": "/ready", "port": int64(8181), "scheme": "HTTP"},
		"periodSeconds": int64(addOnPeriod), "failureThreshold": int64(addOnFailures),
	}
	return []*unstructured.Unstructured{
		object("v1", "ConfigMap", map[string]any{"data": map[string]any{"Corefile": corefile}}),
		object("apps/v1", "Deployment", map[string]any{"spec": map[string]any{
			"replicas": int64(addOnReplicas),
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels, "annotations": map[string]any{addOnVersion: version}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": container, "readinessProbe": probe}}},
			},
		}}),
	}
}

// whyNotUpgraded returns what is missing until all pods run a version of the add-on, or "".
func (d *CoreDNS) whyNotUpgraded(ctx context.Context, version string) string {
	_, deploy, err := d.read(ctx)
	if err != nil {
		return err.Error()
	}
	pods, err := d.pods(ctx)
	if err != nil {
		return err.Error()
	}
	current := 0
	for i := range pods {
		p := &pods[i]
		switch {
		case p.DeletionTimestamp != nil:
		case p.Annotations[addOnVersion] != version:
			return "pod " + p.Name + " runs the former version"
		case podutils.IsPodReady(p):
			current++
		}
	}
	if want := int(ptr.Deref(deploy.Spec.Replicas, 1)); current != want {
		return fmt.Sprintf("%d of %s Ready", current, history.Count(want, "pod"))
	}
	return ""
}

// withoutAddOn removes what an upgrade has left next to the settings, so that the API server knows
// of no other owner of their fields.
func withoutAddOn(cm *corev1.ConfigMap, deploy *appsv1.Deployment) {
	delete(deploy.Spec.Template.Annotations, addOnVersion)
	for _, obj := range []metav1.Object{cm, deploy} {
		obj.SetManagedFields(slices.DeleteFunc(slices.Clone(obj.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == addon.Manager }))
	}
}
