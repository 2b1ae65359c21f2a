package handler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

// Right is a rule of a role that is bound to the handler's service account.
type Right struct {
	Role string // "ClusterRole NAME", "ClusterRole NAME in NAMESPACE" or "Role NAMESPACE/NAME"
	rbacv1.PolicyRule
}

// Rights are what the handler may do in the cluster: the rules of every role that is
// bound to its service account, read from the cluster. They do not include the rights of
// all service accounts. There are none if it installs nothing.
func (h Installation) Rights(ctx context.Context) (_ []Right, err error) {
	defer func() { err = wrap.Errorf(err, "read rights of handler %s", h.Name) }()
	if h.Workload() == "" {
		return nil, nil
	}
	rights, err := h.running().rights(ctx)
	for i := range rights {
		rights[i].Role = h.Settings.originalRole(rights[i].Role)
	}
	return rights, err
}

// User is the handler's user name in the API server; empty if it installs nothing.
func (h Installation) User(ctx context.Context) (_ string, err error) {
	defer func() { err = wrap.Errorf(err, "find the user of handler %s", h.Name) }()
	if h.Workload() == "" {
		return "", nil
	}
	r := h.running()
	account, err := r.account(ctx)
	if err != nil {
		return "", err
	}
	return "system:serviceaccount:" + account.Namespace + ":" + account.Name, nil
}

// account is the service account of the handler's pods.
func (r running) account(ctx context.Context) (rbacv1.Subject, error) {
	w, err := r.read(ctx)
	if err != nil {
		return rbacv1.Subject{}, err
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: r.namespace, Name: cmp.Or(w.template.Spec.ServiceAccountName, "default")}, nil
}

func (r running) rights(ctx context.Context) ([]Right, error) {
	account, err := r.account(ctx)
	if err != nil {
		return nil, err
	}
	clusterWide, err := r.client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	namespaced, err := r.client.RbacV1().RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	var bindings []rbacv1.RoleBinding
	for _, b := range clusterWide.Items {
		bindings = append(bindings, rbacv1.RoleBinding{Subjects: b.Subjects, RoleRef: b.RoleRef}) // in no namespace
	}
	var out []Right
	for _, b := range append(bindings, namespaced.Items...) {
		if names(b.Subjects, account, b.Namespace) {
			rules, err := r.rules(ctx, b.RoleRef, b.Namespace)
			if err != nil {
				return nil, err
			}
			out = append(out, rules...)
		}
	}
	return out, nil
}

// names reports whether the subjects of a binding in the namespace include the service
// account.
func names(subjects []rbacv1.Subject, account rbacv1.Subject, namespace string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Kind == account.Kind && s.Name == account.Name && cmp.Or(s.Namespace, namespace) == account.Namespace
	})
}

// rules are the rules of a role that is bound in the namespace.
func (r running) rules(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]Right, error) {
	var rules []rbacv1.PolicyRule
	role := ref.Kind + " " + ref.Name
	if ref.Kind == "ClusterRole" {
		if namespace != "" {
			role += " in " + namespace
		}
		found, err := r.client.RbacV1().ClusterRoles().Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", role, err)
		}
		rules = found.Rules
	} else {
		role = ref.Kind + " " + namespace + "/" + ref.Name
		found, err := r.client.RbacV1().Roles(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", role, err)
		}
		rules = found.Rules
	}
	out := make([]Right, len(rules))
	for i, rule := range rules {
		out[i] = Right{role, rule}
	}
	return out, nil
}
