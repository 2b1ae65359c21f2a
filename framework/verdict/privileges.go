package verdict

import (
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// right is a right in the cluster that no interruption handler needs. Each of them leads
// to others:
// https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks.
type right struct {
	verbs []string
	of    []string // group/resource; empty for any
	// everywhere is set if it is only too much when it holds in the whole cluster.
	everywhere bool
}

func needless() []right {
	const rbac = "rbac.authorization.k8s.io"
	return []right{
		// The credentials of everybody.
		{verbs: []string{"get", "list", "watch"}, of: []string{"/secrets"}, everywhere: true},
		{verbs: []string{"create"}, of: []string{"/serviceaccounts/token"}},
		{verbs: []string{"impersonate"}},
		// To run something in a pod, with the rights of that pod.
		{verbs: []string{"get", "create"}, of: []string{"/pods/exec", "/pods/attach", "/nodes/proxy"}},
		{verbs: []string{"create"}, of: []string{"/pods"}, everywhere: true},
		{verbs: []string{"update", "patch"}, of: []string{"/pods/ephemeralcontainers"}},
		// To give itself rights.
		{verbs: []string{"escalate", "bind"}},
		{verbs: []string{"create", "update", "patch"}, of: []string{rbac + "/roles", rbac + "/rolebindings", rbac + "/clusterroles", rbac + "/clusterrolebindings"}},
	}
}

// in reports whether a rule includes the right.
func (r right) in(rule history.Event) bool {
	verbs, of := strings.Split(rule.Action, ","), strings.Split(rule.RBACObject(), ",")
	clusterWide := strings.HasPrefix(rule.RBACRole(), "ClusterRole ") && !strings.Contains(rule.RBACRole(), " in ")
	return (clusterWide || !r.everywhere) && intersect(r.verbs, verbs) && (len(r.of) == 0 || intersect(r.of, of))
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// ourHandler is the one whose rights we are responsible for.
const ourHandler = "builtin"

// reportedOnly ends what is required of another handler's rights: who installs it
// decides.
const reportedOnly = "; if the handler is not ours, it is only reported"

func (j judge) ours() bool { return j.History.Meta.Handler.Name == ourHandler }
