package story

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// ExcessiveRights are the rules of the handler's roles that no interruption handler needs, or that let
// it delete nodes although it does not state that it deletes them. Another check finds what is given
// by a wildcard.
func ExcessiveRights(st *Story) []history.Event {
	rights := needless()
	if !st.History.Meta.Handler.DeletesNode {
		rights = append(rights, right{verbs: []string{"delete", "deletecollection"}, of: []string{"/nodes"}})
	}
	return st.All(func(e history.Event) bool {
		return e.Kind == history.RBACRule && slices.ContainsFunc(rights, func(r right) bool { return r.in(e) })
	})
}

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

// BuiltIn reports whether the handler is the built-in one.
func BuiltIn(st *Story) bool { return st.History.Meta.Handler.Name == ourHandler }

// DeniedCalls counts the handler's calls of SQS, and finds those that its policy does not allow, or
// that are about another queue than its own, with what they called. Calls of other AWS services go
// through the proxy too; no policy is known for them.
func DeniedCalls(st *Story) (calls int, denied []history.Event, actions []string) {
	meta := st.History.Meta
	allowed, queue := meta.Handler.SQSActions, meta.Environment["cluster"]
	for _, e := range st.History.Events {
		if e.Kind != history.SQSCall || e.By != "" || e.Owner == history.ProxyOwner || strings.Contains(e.Action, ":") {
			continue
		}
		calls++
		action := ""
		switch {
		case !slices.Contains(allowed, history.SQSPermission(e.Action)):
			action = e.Action
		case e.Queue() != "" && e.Queue() != queue:
			action = fmt.Sprintf("%s on queue %q", e.Action, e.Queue())
		case e.Account != "" && meta.Environment["account"] != "" && e.Account != meta.Environment["account"]:
			action = fmt.Sprintf("%s on queue %q of account %s", e.Action, e.Queue(), e.Account)
		default:
			continue
		}
		denied = append(denied, e)
		if !slices.Contains(actions, action) {
			actions = append(actions, action)
		}
	}
	return calls, denied, actions
}
