package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"
	"sigs.k8s.io/e2e-framework/klient/wait"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

const (
	poll = 100 * time.Millisecond
	// definitionTimeout bounds the wait for a CustomResourceDefinition's kind, and for a
	// namespace to be gone.
	definitionTimeout = 20 * time.Second
	// RemoveTimeout bounds the wait for each deleted object. It is longer than a pod's
	// grace period.
	RemoveTimeout = 90 * time.Second
)

// The keys of an inventory: the ConfigMap in kube-system that lists the objects of a handler, for
// later runs. Its name is that of the handler's namespace.
const (
	inventoryHandler  = "handler"
	inventoryObjects  = "objects"
	inventoryLaunches = "launches"
)

// reference names an installed object.
type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

func (r reference) String() string {
	return r.Kind + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
}

func referenceTo(obj *unstructured.Unstructured) reference {
	return reference{obj.GetAPIVersion(), obj.GetKind(), obj.GetNamespace(), obj.GetName()}
}

func referencesTo(objects []*unstructured.Unstructured) []reference {
	out := make([]reference, len(objects))
	for i, obj := range objects {
		out[i] = referenceTo(obj)
	}
	return out
}

// Install installs the handler and returns when it is ready. An object that exists
// already is an error: it belongs to somebody else. After an error, Uninstall removes
// the created objects.
func (h Installation) Install(ctx context.Context) (err error) {
	defer func() { err = wrap.Errorf(err, "install handler %s", h.Name) }()
	api, objects, err := h.withAPI(h.objects())
	if err != nil || len(objects) == 0 {
		return err
	}
	if err := h.writeInventory(ctx, api, objects); err != nil {
		return err
	}
	for _, obj := range objects {
		if err := create(ctx, api, obj); err != nil {
			return fmt.Errorf("create %s: %w", referenceTo(obj), err)
		}
	}
	return h.waitReady(ctx)
}

// withAPI adds to objects a client for them; nil if there are none.
func (h Installation) withAPI(objects []*unstructured.Unstructured, err error) (*resources.Resources, []*unstructured.Unstructured, error) {
	if err != nil || len(objects) == 0 {
		return nil, nil, err
	}
	api, err := resources.New(h.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	return api, objects, nil
}

// until waits until the condition holds: it is checked at once, and then every poll.
func until(ctx context.Context, timeout time.Duration, holds func(context.Context) (bool, error)) error {
	return wait.For(holds, wait.WithContext(ctx), wait.WithTimeout(timeout), wait.WithInterval(poll), wait.WithImmediate())
}

// create creates an object with its status, strictly: a field that its kind does not
// have is an error. It waits for a kind whose definition was just created, and for a
// namespace that an Uninstall left to be gone.
func create(ctx context.Context, api *resources.Resources, obj *unstructured.Unstructured) error {
	status, hasStatus := obj.Object["status"]
	var last error
	err := until(ctx, definitionTimeout, func(ctx context.Context) (bool, error) {
		// klient's own Create has no option for field validation.
		last = api.GetControllerRuntimeClient().Create(ctx, obj, client.FieldValidation("Strict"), client.FieldOwner("spotdrill"))
		if meta.IsNoMatchError(last) || apierrors.IsAlreadyExists(last) && beingRemoved(ctx, api, obj) {
			return false, nil
		}
		return true, last
	})
	if err != nil {
		return cmp.Or(last, err)
	}
	if hasStatus {
		return createStatus(ctx, api.GetControllerRuntimeClient(), obj, status)
	}
	return nil
}

// beingRemoved reports whether obj is a namespace of a handler that is being deleted.
func beingRemoved(ctx context.Context, api *resources.Resources, obj *unstructured.Unstructured) bool {
	if obj.GetKind() != namespaceKind {
		return false
	}
	var ns corev1.Namespace
	err := api.Get(ctx, obj.GetName(), "", &ns)
	return apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil && ns.Labels[OwnerLabel] != ""
}

func (h Installation) writeInventory(ctx context.Context, api *resources.Resources, objects []*unstructured.Unstructured) error {
	list, err := json.Marshal(referencesTo(objects))
	if err != nil {
		return fmt.Errorf("encode the list of objects: %w", err)
	}
	launches, err := json.Marshal(h.Launches)
	if err != nil {
		return fmt.Errorf("encode what it launches: %w", err)
	}
	err = api.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: h.Settings.namespace(), Namespace: metav1.NamespaceSystem, Labels: map[string]string{OwnerLabel: h.Name}},
		Data:       map[string]string{inventoryHandler: h.Name, inventoryObjects: string(list), inventoryLaunches: string(launches)},
	})
	if apierrors.IsAlreadyExists(err) {
		return errors.New("another handler is installed, or was only partly removed; remove it first")
	}
	return wrap.Errorf(err, "write the list of objects")
}

// Uninstall deletes exactly what Install created with the same settings and returns when
// it is gone, including pods. Only namespaces, which are empty then, may take some seconds
// more. It is no error if some of it is gone already.
func (h Installation) Uninstall(ctx context.Context) (err error) {
	defer func() { err = wrap.Errorf(err, "uninstall handler %s", h.Name) }()
	api, objects, err := h.withAPI(h.objects())
	if err != nil || len(objects) == 0 {
		return err
	}
	return uninstall(ctx, api, h.Settings.namespace(), referencesTo(objects), h.Launches, h.Name)
}

// RemoveLeftover uninstalls the handlers that an earlier run left behind, if any.
func RemoveLeftover(ctx context.Context, cfg *rest.Config) error {
	api, err := resources.New(cfg)
	if err != nil {
		return fmt.Errorf("remove leftover handlers: make a client: %w", err)
	}
	var owned corev1.ConfigMapList
	if err := api.WithNamespace(metav1.NamespaceSystem).List(ctx, &owned, resources.WithLabelSelector(OwnerLabel)); err != nil {
		return fmt.Errorf("remove leftover handlers: find the lists of their objects: %w", err)
	}
	for i := range owned.Items {
		// Manifests of a handler can have a ConfigMap there, too.
		if c := &owned.Items[i]; c.Data[inventoryObjects] != "" && c.Data[inventoryHandler] != "" {
			if err := removeLeftover(ctx, api, c); err != nil {
				return fmt.Errorf("remove handler %s of an earlier run: %w", c.Data[inventoryHandler], err)
			}
		}
	}
	return nil
}

func removeLeftover(ctx context.Context, api *resources.Resources, inventory *corev1.ConfigMap) error {
	var references []reference
	if err := json.Unmarshal([]byte(inventory.Data[inventoryObjects]), &references); err != nil {
		return fmt.Errorf("read the list of its objects: %w", err)
	}
	var launches Launches
	if text := inventory.Data[inventoryLaunches]; text != "" {
		if err := json.Unmarshal([]byte(text), &launches); err != nil {
			return fmt.Errorf("read what it launches: %w", err)
		}
	}
	return uninstall(ctx, api, inventory.Name, references, launches, inventory.Data[inventoryHandler])
}

// uninstall deletes the objects of a handler, and then the inventory of that name.
func uninstall(ctx context.Context, api *resources.Resources, inventory string, references []reference, launches Launches, owner string) error {
	if err := remove(ctx, api, references, launches, owner); err != nil {
		return err
	}
	return removeOne(ctx, api, reference{"v1", "ConfigMap", metav1.NamespaceSystem, inventory}, owner)
}

// remove deletes objects of a handler in the reverse order of their ranks, all of a rank
// at once. When nothing of it runs any more, what it launched goes as well.
func remove(ctx context.Context, api *resources.Resources, references []reference, launches Launches, owner string) error {
	for rank := lastRank; rank >= 0; rank-- {
		group, groupCtx := errgroup.WithContext(ctx)
		for _, r := range references {
			if r.rank() == rank {
				group.Go(func() error { return removeOne(groupCtx, api, r, owner) })
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if rank == runningRank {
			if err := removeLaunched(ctx, api, launches); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeLaunched deletes the objects of the nodes that a handler launched, and clears their
// finalizers.
func removeLaunched(ctx context.Context, api *resources.Resources, launches Launches) error {
	if launches.Kind == "" {
		return nil
	}
	var last error
	err := until(ctx, RemoveTimeout, func(ctx context.Context) (bool, error) {
		var list []unstructured.Unstructured
		if list, last = launches.list(ctx, api); last != nil {
			return false, nil
		}
		for i := range list {
			obj := &list[i]
			last = api.Delete(ctx, obj)
			if apierrors.IsNotFound(last) {
				last = nil
			}
			if last == nil {
				last = clearFinalizers(ctx, api.GetControllerRuntimeClient(), obj)
			}
		}
		return len(list) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("delete each %s of a launched node: %w", launches.Kind, errors.Join(last, err))
	}
	return nil
}

// removeOne deletes an object with the owner label and waits until it is gone, unless it is
// a namespace. With foreground deletion a Deployment is gone only after its pods. Finalizers of the handler
// are cleared, because the handler that would clear them is gone.
func removeOne(ctx context.Context, api *resources.Resources, r reference, owner string) error {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(r.APIVersion)
	obj.SetKind(r.Kind)
	deleted := false
	var last error
	err := until(ctx, RemoveTimeout, func(ctx context.Context) (bool, error) {
		last = api.Get(ctx, r.Name, r.Namespace, obj)
		if apierrors.IsNotFound(last) || meta.IsNoMatchError(last) {
			return true, nil
		}
		if last != nil {
			return false, nil
		}
		if deleted && r.Kind == namespaceKind {
			return true, nil
		}
		if deleted {
			last = errors.Join(clearFinalizers(ctx, api.GetControllerRuntimeClient(), obj), removeOverdue(ctx, api, r, obj))
			return false, nil
		}
		if obj.GetLabels()[OwnerLabel] != owner {
			return true, nil // somebody else's: Install failed because of it
		}
		obj.SetNamespace(r.Namespace)
		if worker := obj.GetLabels()[workerLabel]; worker != "" {
			if last = releaseNode(ctx, api, worker, obj.GetUID()); last != nil {
				return false, nil
			}
		}
		propagation := metav1.DeletePropagationBackground
		if r.runs() {
			propagation = metav1.DeletePropagationForeground
		}
		last = api.Delete(ctx, obj, resources.WithDeletePropagation(string(propagation)))
		deleted = last == nil
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("delete %s: not gone within %s; finalizers %v, last error: %w", r, RemoveTimeout, obj.GetFinalizers(), errors.Join(last, err))
	}
	return nil
}

// overdue is how long after the end of its grace period a pod may still be there.
const overdue = 5 * time.Second

// removeOverdue removes the pods of a workload whose grace period is over: the kubelet that would do so
// went with its node.
func removeOverdue(ctx context.Context, api *resources.Resources, r reference, workload *unstructured.Unstructured) error {
	labels, found, err := unstructured.NestedStringMap(workload.Object, "spec", "selector", "matchLabels")
	if !r.runs() || !found || err != nil {
		return err
	}
	var pods corev1.PodList
	if err := api.WithNamespace(r.Namespace).List(ctx, &pods, resources.WithLabelSelector(metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels}))); err != nil {
		return fmt.Errorf("list the pods of %s: %w", r, err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp == nil || time.Since(p.DeletionTimestamp.Time) < overdue {
			continue
		}
		if err := api.Delete(ctx, p, resources.WithGracePeriod(0)); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove pod %s, whose grace period is over: %w", p.Name, err)
		}
	}
	return nil
}

// releaseNode removes an object from the owners of a Node, which would be deleted with
// it.
func releaseNode(ctx context.Context, api *resources.Resources, name string, owner types.UID) error {
	var node corev1.Node
	err := api.Get(ctx, name, "", &node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	before := node.DeepCopy()
	node.OwnerReferences = slices.DeleteFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner })
	if len(node.OwnerReferences) == len(before.OwnerReferences) {
		return nil
	}
	err = api.GetControllerRuntimeClient().Patch(ctx, &node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return wrap.Errorf(err, "release node %s", name)
}

// clearFinalizers removes the finalizers that are not Kubernetes' own.
func clearFinalizers(ctx context.Context, api client.Client, obj *unstructured.Unstructured) error {
	before := obj.DeepCopy()
	kept := slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return !kubernetesFinalizer(f) })
	if len(kept) == len(before.GetFinalizers()) {
		return nil
	}
	obj.SetFinalizers(kept)
	err := api.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return wrap.Errorf(err, "clear its finalizers %v", before.GetFinalizers())
}

func kubernetesFinalizer(f string) bool {
	domain, _, _ := strings.Cut(f, "/")
	return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents || domain == "kubernetes" ||
		strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")
}
