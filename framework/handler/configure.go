package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

// Reconfigure merges the configuration of the current drill's feature into the installed
// objects. Only another installation undoes it.
func (h Installation) Reconfigure(ctx context.Context) (err error) {
	defer func() { err = wrap.Errorf(err, "reconfigure handler %s", h.Name) }()
	api, changes, err := h.withAPI(h.rendered(h.configured().after, h.Settings.values()))
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return fmt.Errorf("its description has no configurations.%s.after", h.feature)
	}
	for _, change := range changes {
		if err := respecify(ctx, api, change); err != nil {
			return fmt.Errorf("%s: %w", referenceTo(change), err)
		}
	}
	return nil
}

// respecify merges the spec of a change into the installed object of that name.
func respecify(ctx context.Context, api *resources.Resources, change *unstructured.Unstructured) error {
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(change.GroupVersionKind())
	if err := api.Get(ctx, change.GetName(), change.GetNamespace(), now); err != nil {
		return err
	}
	if now.GetLabels()[OwnerLabel] == "" {
		return errors.New("it is not one that spotdrill installed")
	}
	patch, err := specPatch(change)
	if err != nil {
		return err
	}
	// klient's own Patch has no option for field validation.
	return api.GetControllerRuntimeClient().Patch(ctx, now, client.RawPatch(types.MergePatchType, patch),
		client.FieldValidation("Strict"), client.FieldOwner("spotdrill"))
}

// mergeAll merges each change into the object of that name, which must be there.
func mergeAll(objects, changes []*unstructured.Unstructured) error {
	for _, change := range changes {
		found := false
		for _, obj := range objects {
			if referenceTo(obj) != referenceTo(change) {
				continue
			}
			found = true
			if err := merge(obj, change); err != nil {
				return fmt.Errorf("change %s: %w", referenceTo(change), err)
			}
		}
		if !found {
			return fmt.Errorf("change %s: the handler's manifests have no such object", referenceTo(change))
		}
	}
	return nil
}

func merge(obj, change *unstructured.Unstructured) error {
	patch, err := specPatch(change)
	if err != nil {
		return err
	}
	text, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	text, err = jsonpatch.MergePatch(text, patch)
	if err != nil {
		return err
	}
	return obj.UnmarshalJSON(text)
}

// specPatch is the change to the spec as a JSON merge patch (RFC 7396).
func specPatch(change *unstructured.Unstructured) ([]byte, error) {
	return json.Marshal(map[string]any{"spec": change.Object["spec"]})
}
