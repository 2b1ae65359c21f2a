package verdict

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

var checkPrivileges = everywhere(Kind{
	ID: "leastPrivilege", Title: "least privilege",
	Requires: "The handler calls only the SQS actions of its policy, on its own queue only; it may not delete nodes unless its description states that it does; and it has none of the rights that lead to every secret or to other rights.",
	Fix:      "call only the SQS actions of the handler's policy, on its own queue; if it needs more, list them under sqsActions in its description; if it deletes Node objects, set deletesNode there; remove from its roles what no interruption handler needs",
	Look:     Look{Text: "the sqs.call and rbac.rule events that are cited, in history.jsonl"},
}, privileges)

// privileges checks whether the handler called only the SQS actions that its policy
// allows, and only on its own queue, which has the cluster's name. Calls of other AWS
// services go through the proxy too; no policy is known for them. LocalStack
// refuses nothing: this check finds what AWS would refuse. In the cluster, the handler
// must have no right that no interruption handler needs.
func privileges(j judge, v Verdict) Verdict {
	meta := j.History.Meta
	allowed, queue := meta.Handler.SQSActions, meta.Environment["cluster"]
	v = v.requires("no SQS action called that the handler's policy does not allow, and no other queue than its own")
	if len(allowed) > 0 {
		v.Want = fmt.Sprintf("only the SQS actions %s called, only on queue %q", strings.Join(allowed, ", "), queue)
	}
	calls, bad, what := story.DeniedCalls(j.Story)
	v.Numbers = map[string]float64{"sqs_calls": float64(calls), "sqs_calls_denied": float64(len(bad))}
	excess := story.ExcessiveRights(j.Story)
	if len(excess) > 0 {
		v.Want += "; no right in the cluster that no interruption handler needs"
	}
	switch {
	case calls > 0 && (len(allowed) == 0 || queue == ""):
		return v.unknown("the history does not show what the handler may call, and on which queue")
	case len(bad) > 0:
		return v.fail(fmt.Sprintf("%d of %s: %s", len(bad), history.Count(calls, "call"), strings.Join(what, ", ")), capped(bad)...)
	case len(excess) > 0 && story.BuiltIn(j.Story):
		return v.fail(fmt.Sprintf("%s: verbs %s of %s", excess[0].RBACRole(), excess[0].Action, excess[0].RBACObject()), capped(excess)...)
	case j.Unrecorded(j.End) != "":
		return v.unknown("no other call: " + j.Unrecorded(j.End))
	case len(excess) > 0:
		v.Want += reportedOnly
		return v.pass(fmt.Sprintf("%s; %s: verbs %s of %s", history.Count(calls, "call"), excess[0].RBACRole(), excess[0].Action, excess[0].RBACObject()), capped(excess)...)
	}
	return v.pass(history.Count(calls, "call"))
}

// reportedOnly ends what is required of another handler's rights: who installs it
// decides.
const reportedOnly = "; if the handler is not ours, it is only reported"
