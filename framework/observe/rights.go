package observe

import (
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/scenarios"
)

// User is who gets the rights that WriteRights prints.
const User = "spotdrill"

// WriteRights prints the namespace, and the rights that a client needs: in that namespace, and to
// read nodes and the endpoints of DNS. With conntrack, the namespace admits privileged pods. Those of the permissions follow, each with what it is for.
func WriteRights(w io.Writer, namespace string, dns types.NamespacedName, conntrack bool, permissions []scenarios.Permission) error {
	own := []rbacv1.PolicyRule{
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create", "get", "list", "delete"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"create", "list"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/proxy"}, Verbs: []string{"get", "create"}},
	}
	level := "restricted"
	if conntrack {
		level = "privileged"
		own = append(own, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}})
	}
	endpoints := []rbacv1.PolicyRule{{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}}}
	nodes := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}}
	objects := []any{
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace, "labels": map[string]string{
			"pod-security.kubernetes.io/enforce": level,
		}}},
	}
	objects = append(objects, inNamespace(namespace, "spotdrill-observe", own)...)
	objects = append(objects, inNamespace(dns.Namespace, "spotdrill-observe-endpoints", endpoints)...)
	if len(permissions) > 0 {
		nodes = append(nodes, readsForDrills()...)
	}
	for _, p := range permissions {
		switch p {
		case scenarios.EvictCoreDNS:
			objects = append(objects, inNamespace(dns.Namespace, "spotdrill-evict-coredns", evictions())...)
		case scenarios.DrainNode:
			nodes = append(nodes, evictions()...)
			nodes = append(nodes, patchNodes())
		case scenarios.SendNotice:
			nodes = append(nodes, patchNodes())
		}
	}
	objects = append(objects, everywhere("spotdrill-observe", nodes)...)
	for i, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("write the rights: %w", err)
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return fmt.Errorf("write the rights: %w", err)
		}
	}
	return nil
}

// readsForDrills are what is read before anything is changed: what a drain would move, and what
// forbids it.
func readsForDrills() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, Verbs: []string{"get"}},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: []string{"list"}},
	}
}

func evictions() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}}}
}

func patchNodes() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}}
}

func inNamespace(namespace, name string, rules []rbacv1.PolicyRule) []any {
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	return []any{
		rbacv1.Role{TypeMeta: kindOf("Role"), ObjectMeta: meta, Rules: rules},
		rbacv1.RoleBinding{TypeMeta: kindOf("RoleBinding"), ObjectMeta: meta, Subjects: subjects(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}},
	}
}

func everywhere(name string, rules []rbacv1.PolicyRule) []any {
	meta := metav1.ObjectMeta{Name: name}
	return []any{
		rbacv1.ClusterRole{TypeMeta: kindOf("ClusterRole"), ObjectMeta: meta, Rules: rules},
		rbacv1.ClusterRoleBinding{TypeMeta: kindOf("ClusterRoleBinding"), ObjectMeta: meta, Subjects: subjects(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}},
	}
}

func kindOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: User}}
}
