// Package addon finds what the upgrade of an add-on of Amazon EKS would take from a cluster. EKS
// applies the manifest of the next version by server-side apply, and how it resolves conflicts
// decides what is left of the values that somebody else has set:
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-field-management.html.
//
// Preview reads a cluster, and asks its API server by dry runs: nothing changes.
package addon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/spotdrill/spotdrill/framework/history"
)

// ErrConflict reports that an upgrade with RefuseConflicts has changed nothing, because others own
// fields that it would change.
var ErrConflict = errors.New("conflicts with other field managers")

// Upgrade applies the objects of an add-on's version as its field manager, in their order.
// Errors: ErrConflict, ErrManifest, or the cluster's. Only with these two nothing has changed.
func Upgrade(ctx context.Context, api client.Client, objects []*unstructured.Unstructured, manager string, mode history.ConflictMode) error {
	found, err := Preview(ctx, api, objects, manager)
	if err != nil {
		return err
	}
	if conflicts := conflictsOf(found); mode == history.RefuseConflicts && len(conflicts) > 0 {
		return fmt.Errorf("%w: %s", ErrConflict, strings.Join(conflicts, "; "))
	}
	for i, next := range objects {
		next = next.DeepCopy()
		if mode == history.PreserveConflicts {
			if next, err = without(next, found[i].Taken); err != nil {
				return err
			}
		}
		err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(next), client.FieldOwner(manager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s: %w", Name(next), err)
		}
	}
	return nil
}

func conflictsOf(found []Object) (out []string) {
	for _, o := range found {
		for _, c := range o.Conflicts {
			out = append(out, fmt.Sprintf("%s: %s: %s", o.Name, c.Field, c.Says))
		}
	}
	return out
}

// without is the object without these fields.
func without(obj *unstructured.Unstructured, fields []Value) (*unstructured.Unstructured, error) {
	if len(fields) == 0 {
		return obj, nil
	}
	typed, err := converterOf(obj).ObjectToTyped(obj)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Name(obj), err)
	}
	drop := fieldpath.NewSet()
	for _, v := range fields {
		drop.Insert(v.path)
	}
	left, ok := typed.RemoveItems(drop).AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no object without the fields of others", Name(obj))
	}
	return &unstructured.Unstructured{Object: left}, nil
}

// Manager is the field manager by which EKS applies add-ons.
const Manager = "eks"
