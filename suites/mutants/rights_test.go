package mutants

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/suites/mutants/defects"
)

// extra is the name of the role and binding with a mutant's own rights.
const extra = "spotdrill-mutant"

// grant gives the handler's service account the rights that the mutant has and the
// original handler has not.
func (s *suite) grant(ctx context.Context, m defects.Mutant) error {
	if len(m.Grants) == 0 {
		return nil
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: extra}}
	for _, g := range m.Grants {
		groups := g.Groups
		if len(groups) == 0 {
			groups = []string{""}
		}
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: groups, Resources: g.Resources, Verbs: g.Verbs})
	}
	// A run that was killed may have left them.
	if err := s.revoke(ctx); err != nil {
		return err
	}
	rbac := s.session.Running().Cluster.Clientset.RbacV1()
	if _, err := rbac.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("grant rights to mutant %s: %w", m.Name, err)
	}
	_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: extra},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: extra},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: handler.DefaultNamespace, Name: "handler"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("grant rights to mutant %s: %w", m.Name, err)
	}
	return nil
}

// revoke takes the rights of grant away, if there are any.
func (s *suite) revoke(ctx context.Context) error {
	rbac := s.session.Running().Cluster.Clientset.RbacV1()
	for _, remove := range []func() error{
		func() error { return rbac.ClusterRoleBindings().Delete(ctx, extra, metav1.DeleteOptions{}) },
		func() error { return rbac.ClusterRoles().Delete(ctx, extra, metav1.DeleteOptions{}) },
	} {
		if err := remove(); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("revoke a mutant's rights: %w", err)
		}
	}
	return nil
}
