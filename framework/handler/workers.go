package handler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"

	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// workerLabel marks the objects of a worker; its value is the node's name.
const workerLabel = "spotdrill.dev/worker"

// KnowsWorkers reports whether the handler has its own objects or labels for each worker.
func (d Description) KnowsWorkers() bool { return len(d.perWorker) > 0 || len(d.Workers.Labels) > 0 }

// Tags are the tags that the handler needs on a worker's EC2 instance.
func (h Installation) Tags(w Worker) map[string]string {
	return h.filled(h.Workers.Tags, w)
}

// Labels are the labels that the handler needs on a worker's Node object.
func (h Installation) Labels(w Worker) map[string]string {
	return h.filled(h.Workers.Labels, w)
}

func (h Installation) filled(values map[string]string, w Worker) map[string]string {
	out := make(map[string]string, len(values))
	for key, value := range values {
		out[key] = fill(value, h.Settings.valuesFor(w))
	}
	return out
}

// WorkerObject is an object of the handler for a worker, as in the API server's audit
// log.
type WorkerObject struct {
	Node            string
	Of              schema.GroupResource
	Namespace, Name string
}

// WorkerObjects are the objects of the workers in the settings. A handler that deletes
// one removes the worker's node.
func (h Installation) WorkerObjects() (_ []WorkerObject, err error) {
	defer func() { err = wrap.Errorf(err, "handler %s", h.Name) }()
	objects, err := h.workerObjects()
	if err != nil {
		return nil, err
	}
	out := make([]WorkerObject, len(objects))
	for i, obj := range objects {
		plural, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
		out[i] = WorkerObject{Node: obj.GetLabels()[workerLabel], Of: plural.GroupResource(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
	}
	return out, nil
}

// LaunchedObjects are the objects of the nodes that the handler has launched. One whose node
// has not registered is left out.
func (h Installation) LaunchedObjects(ctx context.Context) (_ []WorkerObject, err error) {
	defer func() { err = wrap.Errorf(err, "handler %s", h.Name) }()
	if h.Launches.Kind == "" {
		return nil, nil
	}
	api, err := resources.New(h.Config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	list, err := h.Launches.list(ctx, api)
	if err != nil {
		return nil, err
	}
	var out []WorkerObject
	for _, obj := range list {
		node, _, _ := unstructured.NestedString(obj.Object, "status", "nodeName")
		if node == "" {
			continue
		}
		plural, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
		out = append(out, WorkerObject{Node: node, Of: plural.GroupResource(), Namespace: obj.GetNamespace(), Name: obj.GetName()})
	}
	return out, nil
}

// list returns the objects of the kind but those of the fixed workers, which are ours. There
// are none if the kind is not defined.
func (l Launches) list(ctx context.Context, api *resources.Resources) ([]unstructured.Unstructured, error) {
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion(l.APIVersion)
	all.SetKind(l.Kind + "List")
	err := api.List(ctx, all)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list each %s: %w", l.Kind, err)
	}
	return slices.DeleteFunc(all.Items, func(obj unstructured.Unstructured) bool { return obj.GetLabels()[workerLabel] != "" }), nil
}

func (h Installation) workerObjects() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, w := range h.Settings.Workers {
		objects, err := h.rendered(h.perWorker, h.Settings.valuesFor(w))
		if err != nil {
			return nil, fmt.Errorf("for worker %s: %w", w.Node, err)
		}
		for _, obj := range objects {
			setLabel(obj, workerLabel, w.Node)
		}
		out = append(out, objects...)
	}
	return out, nil
}

// Intact reports whether every object of a worker exists and is not being deleted. The
// handler deletes them when it removes a node.
func (h Installation) Intact(ctx context.Context) (intact bool, err error) {
	defer func() { err = wrap.Errorf(err, "handler %s", h.Name) }()
	api, objects, err := h.withAPI(h.workerObjects())
	if err != nil {
		return false, err
	}
	for _, obj := range objects {
		err := api.Get(ctx, obj.GetName(), obj.GetNamespace(), obj)
		if apierrors.IsNotFound(err) || err == nil && obj.GetDeletionTimestamp() != nil {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", referenceTo(obj), err)
		}
	}
	return true, nil
}

// Stop removes what runs the handler's pods and the objects of each worker, so that
// workers can be restored without it; Start undoes this. It is no error if the handler is
// stopped already.
func (h Installation) Stop(ctx context.Context) (err error) {
	defer func() { err = wrap.Errorf(err, "stop handler %s", h.Name) }()
	api, objects, err := h.withAPI(h.temporary())
	if err != nil || len(objects) == 0 {
		return err // it installs nothing, so that nothing is stopped
	}
	if err := remove(ctx, api, referencesTo(objects), h.Launches, h.Name); err != nil {
		return err
	}
	return h.removeLeases(ctx)
}

// removeLeases removes the leases of the stopped pods from our own namespace: a leader that
// did not release its lease would keep the next one waiting for 15 s.
func (h Installation) removeLeases(ctx context.Context) error {
	r := h.running()
	if r.namespace != h.Settings.namespace() {
		return nil
	}
	err := r.client.CoordinationV1().Leases(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	return wrap.Errorf(err, "remove leases")
}

// Start creates the objects of each worker in these settings, starts the handler again
// and returns when it is ready. Its pods are new ones: none has been restarted.
func (h Installation) Start(ctx context.Context) (err error) {
	defer func() { err = wrap.Errorf(err, "start handler %s", h.Name) }()
	api, objects, err := h.withAPI(h.temporary())
	if err != nil || len(objects) == 0 {
		return err // it installs nothing, so that nothing becomes ready
	}
	for _, obj := range objects {
		if err := create(ctx, api, obj); err != nil {
			return fmt.Errorf("create %s: %w", referenceTo(obj), err)
		}
	}
	return h.waitReady(ctx)
}

// temporary are the objects that a stopped handler does not have, in the order of their
// creation.
func (h Installation) temporary() ([]*unstructured.Unstructured, error) {
	objects, err := h.objects()
	return slices.DeleteFunc(objects, func(obj *unstructured.Unstructured) bool {
		return !referenceTo(obj).runs() && obj.GetLabels()[workerLabel] == ""
	}), err
}

// createStatus writes the status of a new object: Create ignores it if it is a
// subresource.
func createStatus(ctx context.Context, api client.Client, obj *unstructured.Unstructured, status any) error {
	obj.Object["status"] = status
	err := api.Status().Update(ctx, obj, client.FieldValidation("Strict"), client.FieldOwner("spotdrill"))
	return wrap.Errorf(err, "write its status")
}

// waitWorkers waits until the handler knows every worker.
func (h Installation) waitWorkers(ctx context.Context) error {
	if h.Workers.Condition == "" {
		return nil
	}
	api, objects, err := h.withAPI(h.workerObjects())
	if err != nil {
		return err
	}
	for _, obj := range objects {
		err := wait.Until(ctx, h.Ready.Timeout.D(), fmt.Sprintf("condition %s=True of %s", h.Workers.Condition, referenceTo(obj)), func(ctx context.Context) string {
			if err := api.Get(ctx, obj.GetName(), obj.GetNamespace(), obj); err != nil {
				return err.Error()
			}
			return whyWithout(obj, h.Workers.Condition)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", h.At("workers.condition"), err)
		}
	}
	return nil
}

// whyWithout lists all conditions of an object, or is "" if the one with that name is True.
func whyWithout(obj *unstructured.Unstructured, name string) string {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	seen := make([]string, 0, len(conditions))
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == name && condition["status"] == string(corev1.ConditionTrue) {
			return ""
		}
		seen = append(seen, strings.TrimSpace(fmt.Sprintf("%v=%v %v", condition["type"], condition["status"], condition["message"])))
	}
	return cmp.Or(strings.Join(seen, ", "), "it has no conditions")
}
