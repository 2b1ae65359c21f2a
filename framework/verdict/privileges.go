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
		Requires: "The handler calls only the SQS actions of its policy, on its own queue only, and may not delete nodes unless it says that it does.",
		Fix:      "call only the SQS actions of the handler's policy, on its own queue; if it needs more, list them under sqsActions in its description; if it deletes Node objects, set deletesNode there",
		Look:     Look{Text: "the sqs.call and rbac.rule events that are cited, in history.jsonl"},
	},
	always: everywhere(judge.privileges),
}

// privileges checks whether the handler called only the SQS actions that its policy
// allows, and only on its own queue, which has the cluster's name. Calls of other AWS
// services go through the proxy too; no policy is known for them. LocalStack
// refuses nothing: this check finds what AWS would refuse. In the cluster, the handler
// must have no right to delete nodes unless it says that it deletes them.
func (j judge) privileges(v Verdict) Verdict {
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
		if e.Kind != history.SQSCall || e.Owner == history.ProxyOwner || strings.Contains(e.Action, ":") {
			continue
		}
		calls++
		denied := ""
		switch {
		case !slices.Contains(allowed, e.Action):
			denied = e.Action
		case e.Key != "" && e.Key != queue:
			denied = fmt.Sprintf("%s on queue %q", e.Action, e.Key)
		default:
			continue
		}
		bad = append(bad, e)
		if !slices.Contains(what, denied) {
			what = append(what, denied)
		}
	}
	v.Numbers = map[string]float64{"sqs_calls": float64(calls), "sqs_calls_denied": float64(len(bad))}
	deleting := j.mayDeleteNodes()
	if len(deleting) > 0 {
		v.Want += "; no right to delete nodes, as it says that it deletes none"
	}
	switch {
	case calls > 0 && (len(allowed) == 0 || queue == ""):
		return v.unknown("the history does not say what the handler may call, and on which queue")
	case len(bad) > 0:
		return v.fail(fmt.Sprintf("%d of %d calls: %s", len(bad), calls, strings.Join(what, ", ")), capped(bad)...)
	case len(deleting) > 0 && j.ours():
		return v.fail(fmt.Sprintf("%s: verbs %s of %s", deleting[0].Key, deleting[0].Action, deleting[0].Reason), capped(deleting)...)
	case j.Unseen(j.End) != "":
		return v.unknown("no other call: " + j.Unseen(j.End))
	case len(deleting) > 0:
		v.Want += reportedOnly
		return v.pass(fmt.Sprintf("%d calls; %s: verbs %s of %s", calls, deleting[0].Key, deleting[0].Action, deleting[0].Reason), capped(deleting)...)
	}
	return v.pass(fmt.Sprintf("%d calls", calls))
}

// mayDeleteNodes are the rules that let a handler delete nodes although it does not say
// that it deletes them. Another check finds those that do so by a wildcard.
func (j judge) mayDeleteNodes() []history.Event {
	if j.History.Meta.Handler.DeletesNode {
		return nil
	}
	return j.All(func(e history.Event) bool {
		verbs := strings.Split(e.Action, ",")
		return e.Kind == history.RBACRule && slices.Contains(strings.Split(e.Reason, ","), "/nodes") &&
			(slices.Contains(verbs, "delete") || slices.Contains(verbs, "deletecollection"))
	})
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
	always: judge.wildcards,
}

// wildcards checks whether the handler was given rights by "*". For a handler that is
// not ours it is only reported: who installs it decides. ok is false if the history
// does not hold the rights.
func (j judge) wildcards(v Verdict) (Verdict, bool) {
	v = v.wants("no verb, resource or API group given by *")
	rules := j.All(func(e history.Event) bool { return e.Kind == history.RBACRule })
	var wild []history.Event
	for _, e := range rules {
		if strings.Contains(e.Action, "*") || strings.Contains(e.Reason, "*") {
			wild = append(wild, e)
		}
	}
	switch {
	case len(rules) == 0:
		return v, false
	case len(wild) == 0:
		return v.pass(fmt.Sprintf("%d rules", len(rules))), true
	}
	got := fmt.Sprintf("%d of %d rules: %s: verbs %s of %s", len(wild), len(rules), wild[0].Key, wild[0].Action, wild[0].Reason)
	if j.ours() {
		return v.fail(got, capped(wild)...), true
	}
	v.Want += reportedOnly
	return v.pass(got, capped(wild)...), true
}
