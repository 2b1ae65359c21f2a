package handler

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"
	"sigs.k8s.io/e2e-framework/klient/wait"
)

// workerLabel marks the objects of a worker; its value is the node's name.
const workerLabel = "spotdrill.dev/worker"

// replicasAnnotation on a stopped Deployment is its previous number of replicas.
const replicasAnnotation = "spotdrill.dev/replicas"

// KnowsWorkers reports whether the handler has its own objects for each worker.
func (d Description) KnowsWorkers() bool { return len(d.perWorker) > 0 }

// Tags are the tags that the handler needs on a worker's EC2 instance.
func (d Description) Tags(s Settings, w Worker) map[string]string {
	tags := make(map[string]string, len(d.Workers.Tags))
	for key, value := range d.Workers.Tags {
		tags[key] = fill(value, s.valueFor(w))
	}
	return tags
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
func (d Description) WorkerObjects(s Settings) ([]WorkerObject, error) {
	objects, err := d.workerObjects(s)
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", d.Name, err)
	}
	out := make([]WorkerObject, len(objects))
	for i, obj := range objects {
		plural, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
		out[i] = WorkerObject{Node: obj.GetLabels()[workerLabel], Of: plural.GroupResource(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
	}
	return out, nil
}

func (d Description) workerObjects(s Settings) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, w := range s.Workers {
		objects, err := d.rendered(d.perWorker, s.valueFor(w))
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
func (d Description) Intact(ctx context.Context, cfg *rest.Config, s Settings) (bool, error) {
	api, objects, err := d.workersAPI(cfg, s)
	if err != nil {
		return false, err
	}
	for _, obj := range objects {
		err := api.Get(ctx, obj.GetName(), obj.GetNamespace(), obj)
		if apierrors.IsNotFound(err) || err == nil && obj.GetDeletionTimestamp() != nil {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("handler %s: read %s: %w", d.Name, referenceTo(obj), err)
		}
	}
	return true, nil
}

func (d Description) workersAPI(cfg *rest.Config, s Settings) (*resources.Resources, []*unstructured.Unstructured, error) {
	objects, err := d.workerObjects(s)
	if err != nil {
		return nil, nil, fmt.Errorf("handler %s: %w", d.Name, err)
	}
	api, err := resources.New(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("handler %s: make a client: %w", d.Name, err)
	}
	return api, objects, nil
}

// Stop terminates the handler's pods and removes the objects of each worker, so that
// workers can be restored without it; Start undoes this.
func (d Description) Stop(ctx context.Context, cfg *rest.Config, s Settings) error {
	api, objects, err := d.workersAPI(cfg, s)
	if err != nil {
		return err
	}
	if err := d.scaleToZero(ctx, cfg, s); err != nil {
		return fmt.Errorf("stop handler %s: %w", d.Name, err)
	}
	for _, obj := range objects {
		if err := removeOne(ctx, api, referenceTo(obj), d.Name); err != nil {
			return fmt.Errorf("stop handler %s: %w", d.Name, err)
		}
	}
	return nil
}

// scaleToZero returns when no pod of the handler is left.
func (d Description) scaleToZero(ctx context.Context, cfg *rest.Config, s Settings) error {
	r, err := d.running(cfg, s)
	if err != nil {
		return err
	}
	last := "nothing seen"
	err = wait.For(func(ctx context.Context) (bool, error) {
		deployment, err := r.client.AppsV1().Deployments(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			last = err.Error()
			return false, nil
		}
		if replicas := ptr.Deref(deployment.Spec.Replicas, 1); replicas != 0 {
			metav1.SetMetaDataAnnotation(&deployment.ObjectMeta, replicasAnnotation, fmt.Sprint(replicas))
			deployment.Spec.Replicas = new(int32(0))
			_, err := r.client.AppsV1().Deployments(r.namespace).Update(ctx, deployment, metav1.UpdateOptions{})
			last = fmt.Sprintf("scale to zero: %v", err)
			return false, nil
		}
		pods, err := r.pods(ctx)
		if err != nil {
			last = err.Error()
			return false, nil
		}
		last = fmt.Sprintf("%d pods are left", len(pods))
		return len(pods) == 0, nil
	}, wait.WithContext(ctx), wait.WithTimeout(RemoveTimeout), wait.WithInterval(poll), wait.WithImmediate())
	if err != nil {
		return fmt.Errorf("deployment %s/%s: pods not terminated within %s: %s: %w", r.namespace, r.name, RemoveTimeout, last, err)
	}
	return nil
}

// Start creates the objects of each worker in these settings, starts the handler again
// and returns when it is ready.
func (d Description) Start(ctx context.Context, cfg *rest.Config, s Settings) error {
	api, objects, err := d.workersAPI(cfg, s)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := create(ctx, api, obj); err != nil {
			return fmt.Errorf("start handler %s: create %s: %w", d.Name, referenceTo(obj), err)
		}
	}
	r, err := d.running(cfg, s)
	if err != nil {
		return fmt.Errorf("start handler %s: %w", d.Name, err)
	}
	deployment, err := r.client.AppsV1().Deployments(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("start handler %s: read Deployment %s/%s: %w", d.Name, r.namespace, r.name, err)
	}
	replicas := int32(1)
	if _, err := fmt.Sscan(deployment.Annotations[replicasAnnotation], &replicas); err != nil {
		return fmt.Errorf("start handler %s: annotation %s: %w", d.Name, replicasAnnotation, err)
	}
	if err := r.scale(ctx, replicas); err != nil {
		return fmt.Errorf("start handler %s: %w", d.Name, err)
	}
	if err := d.waitReady(ctx, cfg, s); err != nil {
		return fmt.Errorf("start handler %s: %w", d.Name, err)
	}
	return nil
}

// createStatus writes the status of a new object: Create ignores it if it is a
// subresource.
func createStatus(ctx context.Context, api client.Client, obj *unstructured.Unstructured, status any) error {
	obj.Object["status"] = status
	if err := api.Status().Update(ctx, obj, client.FieldValidation("Strict"), client.FieldOwner("spotdrill")); err != nil {
		return fmt.Errorf("write its status: %w", err)
	}
	return nil
}

// waitWorkers waits until the handler knows every worker.
func (d Description) waitWorkers(ctx context.Context, cfg *rest.Config, s Settings) error {
	if d.Workers.Condition == "" {
		return nil
	}
	api, objects, err := d.workersAPI(cfg, s)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		seen := "nothing seen"
		err := wait.For(func(ctx context.Context) (bool, error) {
			if err := api.Get(ctx, obj.GetName(), obj.GetNamespace(), obj); err != nil {
				seen = err.Error()
				return false, nil
			}
			var holds bool
			holds, seen = hasCondition(obj, d.Workers.Condition)
			return holds, nil
		}, wait.WithContext(ctx), wait.WithTimeout(d.Ready.Timeout.D()), wait.WithInterval(poll), wait.WithImmediate())
		if err != nil {
			return fmt.Errorf("%s: %s has no condition %s=True after %s: %s: %w",
				d.At("workers.condition"), referenceTo(obj), d.Workers.Condition, d.Ready.Timeout.D(), seen, err)
		}
	}
	return nil
}

// hasCondition reports whether the condition is True, and lists all conditions.
func hasCondition(obj *unstructured.Unstructured, name string) (bool, string) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	holds := false
	var seen []string
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		holds = holds || condition["type"] == name && condition["status"] == string(corev1.ConditionTrue)
		seen = append(seen, strings.TrimSpace(fmt.Sprintf("%v=%v %v", condition["type"], condition["status"], condition["message"])))
	}
	if len(seen) == 0 {
		return false, "it has no conditions"
	}
	return holds, strings.Join(seen, ", ")
}
