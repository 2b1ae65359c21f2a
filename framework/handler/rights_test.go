package handler

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestRights(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "drill", Name: "handler"}}
	deployment.Spec.Template.Spec.ServiceAccountName = "handler"
	verbs := func(v ...string) []rbacv1.PolicyRule { return []rbacv1.PolicyRule{{Verbs: v}} }
	account := func(namespace, name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}
	}
	r := running{client: fake.NewClientset(
		deployment,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Rules: verbs("get", "*")},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Rules: verbs("patch")},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Rules: verbs("delete")},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "narrow"}, Rules: verbs("create")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "wide"}, Subjects: account("drill", "handler")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "foreign"}, Subjects: account("other", "handler")},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "narrow"}, Subjects: account("drill", "handler")},
		// A subject without a namespace is in the binding's.
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "drill", Name: "d"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "shared"}, Subjects: account("", "handler")},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "foreign"}, Subjects: account("drill", "default")},
	), namespace: "drill", name: "handler"}
	rights, err := r.rights(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, right := range rights {
		got = append(got, right.Role+": "+right.Verbs[len(right.Verbs)-1])
	}
	slices.Sort(got)
	if want := []string{"ClusterRole shared in drill: patch", "ClusterRole wide: *", "Role default/narrow: create"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRightsOfARoleThatIsMissing(t *testing.T) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "drill", Name: "handler"}}
	r := running{client: fake.NewClientset(deployment, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "gone"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "drill", Name: "default"}},
	}), namespace: "drill", name: "handler"}
	if rights, err := r.rights(t.Context()); err == nil {
		t.Errorf("no error, and rights %v", rights)
	}
}
