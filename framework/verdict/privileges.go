package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
)

// privileges asks whether the handler called of SQS only what its policy allows,
// and only on its own queue, which has the cluster's name. Calls of other AWS
// services go through the proxy too; no policy is known for them. LocalStack
// refuses nothing: what AWS would is found here. In the cluster a right to delete
// nodes is one too many where the handler does not say that it does so.
func (d drill) privileges() Verdict {
	meta := d.history.Meta
	allowed, queue := meta.Handler.SQSActions, meta.Environment["cluster"]
	v := Verdict{Check: "least privilege", Want: "no SQS action called that the handler's policy does not allow, and no other queue than its own"}
	if len(allowed) > 0 {
		v.Want = fmt.Sprintf("of SQS only %s called, on queue %q only", strings.Join(allowed, ", "), queue)
	}
	var bad []history.Event
	var what []string
	calls := 0
	for _, e := range d.history.Events {
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
	deleting := d.mayDeleteNodes()
	if len(deleting) > 0 {
		v.Want += "; no right to delete nodes, as it says that it deletes none"
	}
	switch {
	case calls > 0 && (len(allowed) == 0 || queue == ""):
		return v.unknown("the history does not say what the handler may call, and on which queue")
	case len(bad) > 0:
		return v.fail(fmt.Sprintf("%d of %d calls: %s", len(bad), calls, strings.Join(what, ", ")), capped(bad)...)
	case len(deleting) > 0 && d.ours():
		return v.fail(fmt.Sprintf("%s: verbs %s of %s", deleting[0].Key, deleting[0].Action, deleting[0].Reason), capped(deleting)...)
	case d.unseen(d.end) != "":
		return v.unknown("no other call: " + d.unseen(d.end))
	case len(deleting) > 0:
		v.Want += toldOnly
		return v.pass(fmt.Sprintf("%d calls; %s: verbs %s of %s", calls, deleting[0].Key, deleting[0].Action, deleting[0].Reason), capped(deleting)...)
	}
	return v.pass(fmt.Sprintf("%d calls", calls))
}

// mayDeleteNodes are the rules that let a handler delete nodes that does not say that
// it deletes them. Those that do so by a wildcard are for another check.
func (d drill) mayDeleteNodes() []history.Event {
	if d.history.Meta.Handler.DeletesNode {
		return nil
	}
	return d.all(func(e history.Event) bool {
		verbs := strings.Split(e.Action, ",")
		return e.Kind == history.RBACRule && slices.Contains(strings.Split(e.Reason, ","), "/nodes") &&
			(slices.Contains(verbs, "delete") || slices.Contains(verbs, "deletecollection"))
	})
}

// ourHandler is the one whose rights are ours to answer for.
const ourHandler = "builtin"

// toldOnly ends what is wanted of another's rights: who installs it decides.
const toldOnly = "; where the handler is not ours, it is only told"

func (d drill) ours() bool { return d.history.Meta.Handler.Name == ourHandler }

// wildcards asks whether the handler was given rights by "*". In another's it is
// told and no fault of the handler: who installs it decides. ok is false where the
// history does not hold the rights.
func (d drill) wildcards() (v Verdict, ok bool) {
	v = Verdict{Check: "no RBAC wildcard", Want: "no verb, resource or API group given by *"}
	rules := d.all(func(e history.Event) bool { return e.Kind == history.RBACRule })
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
	if d.ours() {
		return v.fail(got, capped(wild)...), true
	}
	v.Want += toldOnly
	return v.pass(got, capped(wild)...), true
}
