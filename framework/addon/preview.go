package addon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrManifest reports that the manifest cannot be applied to this cluster, whatever the mode.
var ErrManifest = errors.New("the manifest does not apply")

// Object is what the upgrade does to an object of the add-on.
type Object struct {
	Name string `json:"name"`
	// New reports whether the cluster does not have it yet.
	New bool `json:"new,omitempty"`
	// Taken are the values of others that OVERWRITE takes, and PRESERVE leaves.
	Taken []Value `json:"taken,omitempty"`
	// Conflicts are what the API server answers to NONE, which then changes nothing.
	Conflicts []Conflict `json:"conflicts,omitempty"`
}

// Conflict is a field that another field manager owns.
type Conflict struct {
	Field string `json:"field"`
	// Says is the API server's message, which names the manager.
	Says string `json:"says"`
}

// Objects reads the objects of a manifest, in YAML or JSON.
func Objects(manifest io.Reader) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(manifest, 4096)
	var out []*unstructured.Unstructured
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		switch {
		case errors.Is(err, io.EOF) && len(out) == 0:
			return nil, fmt.Errorf("%w: it has no object", ErrManifest)
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%w: document %d: %w", ErrManifest, len(out)+1, err)
		case len(obj.Object) == 0: // an empty document
		case obj.IsList():
			list, err := obj.ToList()
			if err != nil {
				return nil, fmt.Errorf("%w: document %d: %w", ErrManifest, len(out)+1, err)
			}
			for i := range list.Items {
				out = append(out, &list.Items[i])
			}
		case obj.GetKind() == "" || obj.GetAPIVersion() == "" || obj.GetName() == "":
			return nil, fmt.Errorf("%w: document %d has no apiVersion, kind or metadata.name", ErrManifest, len(out)+1)
		default:
			out = append(out, obj)
		}
	}
}

// Preview returns what an upgrade to these objects does to the cluster, by dry runs of the field
// manager. Errors: ErrManifest, or the cluster cannot be read.
func Preview(ctx context.Context, api client.Client, objects []*unstructured.Unstructured, manager string) ([]Object, error) {
	out := make([]Object, 0, len(objects))
	for _, next := range objects {
		o, err := preview(ctx, api, next, manager)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Name(next), err)
		}
		out = append(out, o)
	}
	return out, nil
}

func preview(ctx context.Context, api client.Client, next *unstructured.Unstructured, manager string) (Object, error) {
	o := Object{Name: Name(next)}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(next.GroupVersionKind())
	err := api.Get(ctx, client.ObjectKeyFromObject(next), live)
	switch {
	case meta.IsNoMatchError(err):
		return o, fmt.Errorf("%w: the cluster has no such kind: %w", ErrManifest, err)
	case err != nil && !apierrors.IsNotFound(err):
		return o, fmt.Errorf("read it: %w", err)
	}
	o.New = err != nil
	if o.Conflicts, err = conflicts(dryRun(ctx, api, next.DeepCopy(), manager)); err != nil {
		return o, err
	}
	if o.New {
		return o, nil
	}
	upgraded := next.DeepCopy()
	if err := refused(dryRun(ctx, api, upgraded, manager, client.ForceOwnership)); err != nil {
		return o, err
	}
	o.Taken, err = Diff(live, upgraded, manager)
	return o, err
}

// dryRun applies an object as the manager, without effect, and makes it what it would become.
func dryRun(ctx context.Context, api client.Client, obj *unstructured.Unstructured, manager string, options ...client.ApplyOption) error {
	return api.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), append(options, client.DryRunAll, client.FieldOwner(manager))...)
}

// conflicts are those of an answer to an apply.
func conflicts(answer error) ([]Conflict, error) {
	var status apierrors.APIStatus
	if answer == nil || !apierrors.IsConflict(answer) || !errors.As(answer, &status) || status.Status().Details == nil {
		return nil, refused(answer)
	}
	var out []Conflict
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			out = append(out, Conflict{Field: cause.Field, Says: strings.TrimSpace(cause.Message)})
		}
	}
	return out, nil
}

// refused is the error of an apply that the manifest is the reason for, or another.
func refused(err error) error {
	// The API server answers a field that the kind does not have as an error of its own.
	undeclared := err != nil && strings.Contains(err.Error(), "field not declared in schema")
	if undeclared || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return err
}
