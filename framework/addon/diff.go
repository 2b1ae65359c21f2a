package addon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Value is a field that an upgrade would change although another field manager owns it.
type Value struct {
	// Field is its path, such as .spec.template.spec.containers[name="coredns"].image.
	Field string `json:"field"`
	// Now and Next are its values as JSON; Next is empty if the upgrade removes it.
	Now  string `json:"now"`
	Next string `json:"next,omitempty"`
	// Owners are the field managers that own it, but for the add-on's.
	Owners []string `json:"owners"`

	path fieldpath.Path
}

// Lines show the change: what goes after a minus, and what comes after a plus. In a text of
// several lines, only those that change are shown.
func (v Value) Lines() []string {
	now, next := lines(v.Now), lines(v.Next)
	var out []string
	for _, line := range now {
		if !slices.Contains(next, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range next {
		if !slices.Contains(now, line) {
			out = append(out, "+ "+line)
		}
	}
	return out
}

// lines are those of a JSON string, or the JSON itself.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	var s string
	if json.Unmarshal([]byte(text), &s) != nil || !strings.Contains(s, "\n") {
		return []string{text}
	}
	return strings.Split(strings.TrimRight(s, "\n"), "\n")
}

// Diff returns the values of others that an upgrade changes: live is the object as it is, and
// upgraded what the add-on's manager would make of it with OVERWRITE. Both have managedFields.
func Diff(live, upgraded *unstructured.Unstructured, manager string) ([]Value, error) {
	converter := converterOf(live)
	before, err := converter.ObjectToTyped(withoutMeta(live))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Name(live), err)
	}
	after, err := converter.ObjectToTyped(withoutMeta(upgraded))
	if err != nil {
		return nil, fmt.Errorf("read %s as it would be: %w", Name(live), err)
	}
	change, err := before.Compare(after)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", Name(live), err)
	}
	owned, err := owners(live)
	if err != nil {
		return nil, err
	}
	var out []Value
	for path := range change.Modified.Union(change.Removed).Leaves().All() {
		others := owned.of(path, manager)
		if len(others) == 0 {
			continue
		}
		out = append(out, Value{path: path.Copy(), Field: path.String(), Now: at(before.AsValue(), path), Next: at(after.AsValue(), path), Owners: others})
	}
	slices.SortFunc(out, func(a, b Value) int { return strings.Compare(a.Field, b.Field) })
	return out, nil
}

// converterOf knows which lists of the built-in kinds have keys. Of other kinds, lists are
// compared as a whole.
func converterOf(obj *unstructured.Unstructured) managedfields.TypeConverter {
	if scheme.Scheme.Recognizes(obj.GroupVersionKind()) {
		return applyconfigurations.NewTypeConverter(scheme.Scheme)
	}
	return managedfields.NewDeducedTypeConverter()
}

// withoutMeta leaves out what the API server itself changes.
func withoutMeta(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(out.Object, "status")
	return out
}

// ownership is the fields of each field manager.
type ownership map[string]*fieldpath.Set

func owners(obj metav1.Object) (ownership, error) {
	out := ownership{}
	for _, entry := range obj.GetManagedFields() {
		if entry.FieldsV1 == nil || entry.Subresource == "status" {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("read what %s owns of %s: %w", entry.Manager, Name(obj), err)
		}
		if earlier, ok := out[entry.Manager]; ok {
			set = set.Union(earlier) // by update, and by apply
		}
		out[entry.Manager] = set
	}
	return out, nil
}

// Owners returns the field managers that own a field of an object, or a part of it, in the
// order of their names. The path has the names of fields; a list has the key name of its item, such
// as "containers", addon.Item("coredns"). An error means that managedFields cannot be read.
func Owners(obj metav1.Object, path ...any) ([]string, error) {
	at, err := fieldpath.MakePath(path...)
	if err != nil {
		return nil, fmt.Errorf("path %v: %w", path, err)
	}
	owned, err := owners(obj)
	if err != nil {
		return nil, err
	}
	return owned.managers(func(_ string, fields *fieldpath.Set) bool { return owns(fields, at) || !within(fields, at).Empty() }), nil
}

// Item is the item of a list whose key is its name.
func Item(name string) any {
	return &value.FieldList{{Name: "name", Value: value.NewValueInterface(name)}}
}

// within is the part of a set below a field.
func within(fields *fieldpath.Set, path fieldpath.Path) *fieldpath.Set {
	for _, step := range path {
		fields = fields.WithPrefix(step)
	}
	return fields
}

// of are the managers that own a field, but for one.
func (o ownership) of(path fieldpath.Path, except string) []string {
	return o.managers(func(manager string, fields *fieldpath.Set) bool { return manager != except && owns(fields, path) })
}

// managers are those that a test of a manager and its fields holds for, in the order of their names.
func (o ownership) managers(holds func(manager string, fields *fieldpath.Set) bool) (out []string) {
	for manager, fields := range o {
		if holds(manager, fields) {
			out = append(out, manager)
		}
	}
	slices.Sort(out)
	return out
}

// owns reports whether the set has the field, or one that contains it and is owned as a whole.
func owns(fields *fieldpath.Set, path fieldpath.Path) bool {
	for n := len(path); n > 0; n-- {
		if fields.Has(path[:n]) && (n == len(path) || fields.Leaves().Has(path[:n])) {
			return true
		}
	}
	return false
}

// at is the value of a field as JSON; "" if there is none.
func at(v value.Value, path fieldpath.Path) string {
	for _, step := range path {
		if v = child(v, step); v == nil {
			return ""
		}
	}
	text, err := json.Marshal(v.Unstructured())
	if err != nil {
		return ""
	}
	return string(text)
}

func child(v value.Value, step fieldpath.PathElement) value.Value {
	switch {
	case step.FieldName != nil && v.IsMap():
		if c, ok := v.AsMap().Get(*step.FieldName); ok {
			return c
		}
	case step.Key != nil && v.IsList():
		return first(v, func(item value.Value) bool { return hasKey(item, *step.Key) })
	case step.Value != nil && v.IsList():
		return first(v, func(item value.Value) bool { return value.Equals(item, *step.Value) })
	case step.Index != nil && v.IsList() && *step.Index < v.AsList().Length():
		return v.AsList().At(*step.Index)
	}
	return nil
}

func first(list value.Value, ok func(value.Value) bool) value.Value {
	for i := range list.AsList().Length() {
		if item := list.AsList().At(i); ok(item) {
			return item
		}
	}
	return nil
}

// hasKey reports whether an item of a list has these values. One that is left out has its
// default, which the key has.
func hasKey(item value.Value, key value.FieldList) bool {
	if !item.IsMap() {
		return false
	}
	for _, field := range key {
		if got, ok := item.AsMap().Get(field.Name); ok && !value.Equals(got, field.Value) {
			return false
		}
	}
	return true
}

// Name is an object in words: Deployment kube-system/coredns.
func Name(obj metav1.Object) string {
	kind := "object"
	if u, ok := obj.(*unstructured.Unstructured); ok {
		kind = u.GetKind()
	}
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return kind + " " + obj.GetNamespace() + "/" + obj.GetName()
}
