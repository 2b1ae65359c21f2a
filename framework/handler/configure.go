package handler

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"
	"sigs.k8s.io/e2e-framework/klient/wait"
)

// Reconfigure gives installed objects of the handler the specs of its configuration for the
// feature. Only another installation undoes it.
func (d Description) Reconfigure(ctx context.Context, cfg *rest.Config, s Settings, feature string) error {
	objects, err := d.rendered(d.configurations[feature], s.value)
	if err != nil {
		return fmt.Errorf("reconfigure handler %s: %w", d.Name, err)
	}
	if len(objects) == 0 {
		return fmt.Errorf("reconfigure handler %s: its description has no configurations.%s", d.Name, feature)
	}
	api, err := resources.New(cfg)
	if err != nil {
		return fmt.Errorf("reconfigure handler %s: make a client: %w", d.Name, err)
	}
	for _, obj := range objects {
		if err := respecify(ctx, api, obj); err != nil {
			return fmt.Errorf("reconfigure handler %s: %s: %w", d.Name, referenceTo(obj), err)
		}
	}
	return nil
}

// respecify gives the installed object of that name the spec of this one. The handler itself
// may change the object at the same time.
func respecify(ctx context.Context, api *resources.Resources, as *unstructured.Unstructured) error {
	var last error
	err := wait.For(func(ctx context.Context) (bool, error) {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(as.GroupVersionKind())
		if last = api.Get(ctx, as.GetName(), as.GetNamespace(), now); last != nil {
			return true, last
		}
		if now.GetLabels()[OwnerLabel] == "" {
			return true, errors.New("it is not one that spotdrill installed")
		}
		now.Object["spec"] = as.Object["spec"]
		last = api.GetControllerRuntimeClient().Update(ctx, now, client.FieldValidation("Strict"), client.FieldOwner("spotdrill"))
		if apierrors.IsConflict(last) {
			return false, nil
		}
		return true, last
	}, wait.WithContext(ctx), wait.WithTimeout(definitionTimeout), wait.WithInterval(poll), wait.WithImmediate())
	return errors.Join(err, last)
}
