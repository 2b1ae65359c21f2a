package handler

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// OncePerCluster is why the handler cannot be installed several times in a cluster, in words; "" if it can. It then has
// nothing outside its own namespace but roles and their bindings, which can have other names in each lane.
func (d Description) OncePerCluster() string {
	switch {
	case d.OnEachNode():
		return "it runs on each node"
	case d.KnowsWorkers():
		return "it has objects for the cluster's workers"
	case d.ElectsLeader:
		return "its replicas elect one leader"
	}
	objects, err := d.rendered(slices.Concat(d.definitions, d.documents), Settings{}.values())
	if err != nil {
		return err.Error()
	}
	for _, obj := range objects {
		if obj.GetNamespace() != DefaultNamespace && obj.GetName() != DefaultNamespace && !isRole(obj) {
			return fmt.Sprintf("%s is outside its namespace", referenceTo(obj))
		}
	}
	return ""
}

// isRole reports whether the object is a role, or the binding of one.
func isRole(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().Group == rbacv1.GroupName
}

// inLane gives roles and bindings outside the handler's namespace a name of the lane's own.
func (s Settings) inLane(objects []*unstructured.Unstructured) error {
	if s.Lane == "" {
		return nil
	}
	renamed := map[string]bool{} // kind and name, as bindings refer to them
	for _, obj := range objects {
		if isRole(obj) && obj.GetNamespace() != s.namespace() {
			renamed[obj.GetKind()+" "+obj.GetName()] = true
			obj.SetName(obj.GetName() + s.laneSuffix())
		}
	}
	for _, obj := range objects {
		kind, _, _ := unstructured.NestedString(obj.Object, "roleRef", "kind")
		name, found, err := unstructured.NestedString(obj.Object, "roleRef", "name")
		if err != nil || !found || !renamed[kind+" "+name] {
			continue
		}
		if err := unstructured.SetNestedField(obj.Object, name+s.laneSuffix(), "roleRef", "name"); err != nil {
			return fmt.Errorf("rename the role of %s: %w", referenceTo(obj), err)
		}
	}
	return nil
}

func (s Settings) laneSuffix() string { return "-" + s.Lane }

// originalRole is the name of a role as the manifests have it.
func (s Settings) originalRole(name string) string {
	if s.Lane == "" {
		return name
	}
	return strings.TrimSuffix(name, s.laneSuffix())
}
