package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

var checkPrivileges = check{
	Kind: Kind{
		ID: "leastPrivilege", Title: "least privilege",
		Requires: "The handler calls only the SQS actions of its policy, on its own queue only; it may not delete nodes unless its description states that it does; and it has none of the rights that lead to every secret or to other rights.",
		Fix:      "call only the SQS actions of the handler's policy, on its own queue; if it needs more, list them under sqsActions in its description; if it deletes Node objects, set deletesNode there; remove from its roles what no interruption handler needs",
		Look:     Look{Text: "the sqs.call and rbac.rule events that are cited, in history.jsonl"},
	},
	always: everywhere(privileges),
}

// privileges checks whether the handler called only the SQS actions that its policy
// allows, and only on its own queue, which has the cluster's name. Calls of other AWS
// services go through the proxy too; no policy is known for them. LocalStack
// refuses nothing: this check finds what AWS would refuse. In the cluster, the handler
// must have no right that no interruption handler needs.
func privileges(j judge, v Verdict) Verdict {
	meta := j.History.Meta
	allowed, queue := meta.Handler.SQSActions, meta.Environment["cluster"]
	v = v.wants("no SQS action called that the handler's policy does not allow, and no other queue than its own")
	if len(allowed) > 0 {
		v.Want = fmt.Sprintf("only the SQS actions %s called, only on queue %q", strings.Join(allowed, ", "), queue)
	}
	var bad []history.Event
	var what []string
	calls := 0
	for _, e := range j.History.Events {
		if e.Kind != history.SQSCall || e.By != "" || e.Owner == history.ProxyOwner || strings.Contains(e.Action, ":") {
			continue
		}
		calls++
		denied := ""
		switch {
		case !slices.Contains(allowed, history.SQSPermission(e.Action)):
			denied = e.Action
		case e.Queue() != "" && e.Queue() != queue:
			denied = fmt.Sprintf("%s on queue %q", e.Action, e.Queue())
		case e.Account != "" && meta.Environment["account"] != "" && e.Account != meta.Environment["account"]:
			denied = fmt.Sprintf("%s on queue %q of account %s", e.Action, e.Queue(), e.Account)
		default:
			continue
		}
		bad = append(bad, e)
		if !slices.Contains(what, denied) {
			what = append(what, denied)
		}
	}
	v.Numbers = map[string]float64{"sqs_calls": float64(calls), "sqs_calls_denied": float64(len(bad))}
	excess := j.All(j.excessive)
	if len(excess) > 0 {
		v.Want += "; no right in the cluster that no interruption handler needs"
	}
	switch {
	case calls > 0 && (len(allowed) == 0 || queue == ""):
		return v.unknown("the history does not show what the handler may call, and on which queue")
	case len(bad) > 0:
		return v.fail(fmt.Sprintf("%d of %d calls: %s", len(bad), calls, strings.Join(what, ", ")), capped(bad)...)
	case len(excess) > 0 && j.ours():
		return v.fail(fmt.Sprintf("%s: verbs %s of %s", excess[0].RBACRole(), excess[0].Action, excess[0].RBACObject()), capped(excess)...)
	case j.Unrecorded(j.End) != "":
		return v.unknown("no other call: " + j.Unrecorded(j.End))
	case len(excess) > 0:
		v.Want += reportedOnly
		return v.pass(fmt.Sprintf("%d calls; %s: verbs %s of %s", calls, excess[0].RBACRole(), excess[0].Action, excess[0].RBACObject()), capped(excess)...)
	}
	return v.pass(fmt.Sprintf("%d calls", calls))
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

// excessive reports whether the event is a rule of the handler's roles that no
// interruption handler needs, or that lets it delete nodes although it does not state that it
// deletes them. Another check finds what is given by a wildcard.
func (j judge) excessive(e history.Event) bool {
	if e.Kind != history.RBACRule {
		return false
	}
	rights := needless()
	if !j.History.Meta.Handler.DeletesNode {
		rights = append(rights, right{verbs: []string{"delete", "deletecollection"}, of: []string{"/nodes"}})
	}
	return slices.ContainsFunc(rights, func(r right) bool { return r.in(e) })
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

var checkWildcards = check{
	Kind: Kind{
		ID: "noWildcard", Title: "no RBAC wildcard",
		Requires: "No verb, resource or API group of the handler's roles is given by *.",
		Fix:      "name the verbs, resources and API groups that the handler needs in its roles instead of *",
		Look:     Look{Text: "the rbac.rule events that are cited: the role and its rules"},
	},
	always: wildcards,
}

// wildcards checks whether the handler was given rights by "*". For a handler that is
// not ours it is only reported: who installs it decides. ok is false if the history
// does not hold the rights.
func wildcards(j judge, v Verdict) (Verdict, bool) {
	v = v.wants("no verb, resource or API group given by *")
	rules := j.All(func(e history.Event) bool { return e.Kind == history.RBACRule })
	var wild []history.Event
	for _, e := range rules {
		if strings.Contains(e.Action, "*") || strings.Contains(e.RBACObject(), "*") {
			wild = append(wild, e)
		}
	}
	switch {
	case len(rules) == 0:
		return v, false
	case len(wild) == 0:
		return v.pass(fmt.Sprintf("%d rules", len(rules))), true
	}
	got := fmt.Sprintf("%d of %d rules: %s: verbs %s of %s", len(wild), len(rules), wild[0].RBACRole(), wild[0].Action, wild[0].RBACObject())
	if j.ours() {
		return v.fail(got, capped(wild)...), true
	}
	v.Want += reportedOnly
	return v.pass(got, capped(wild)...), true
}
