package verdict

import "path"

// fixes say, by the names of checks, what to do where one does not pass.
var fixes = []struct{ check, fix string }{
	{"marked *", "cordon or taint the node as soon as the notice is read, before the first eviction; if the handler does, name its mark under marks in its description"},
	{"drained once *", "remember on the node that its drain has begun (a taint, an annotation), and only delete the message of a notice that comes again"},
	{"drained *", "evict every pod by the Eviction API at once and side by side, try those again that a budget refuses, wait for none before the next is told, and give no request up before the API server answers: it may have been counted, and then holds the budget for two minutes"},
	{"daemon pods left on *", "leave pods that a DaemonSet owns: they come back on the same node, and the others need them until the end"},
	{"deleted *", "delete a message once its drain is recorded on the node, and delete also what cannot be read or is about no node of this cluster"},
	{"untouched *", "find the node by the instance id in its providerID, and touch no other; a notice about a foreign instance is only deleted"},
	{"no eviction", "nobody may evict anything in this drill: look whose event or audit record names the eviction"},
	{"event on *", "create a Kubernetes event on the Node when a notice arrives; if the handler does, see that its RBAC lets it create events"},
	{"dns lost (*)", "set lameduck longer than kube-proxy and the readiness probe need to take the pod out of the Service, and the grace period longer than that"},
	{"dns window (*)", "compare the window with lameduck and with the readiness probe's period times its threshold in the report's timeline; the longer of them is what to change"},
	{"endpoint of * left", "somebody noticed the loss before the node controller did: look for who deleted the pod or changed the EndpointSlice"},
	{"handler not restarted", "look in handler.log for the panic or the failed probe; what cannot be parsed must be an error that is handled, not an exit"},
	{"queue empty", "delete every message that the handler is done with, also those that it does nothing about, or they come again until the queue's retention ends"},
	{"no pod comes to *", "cordon, or taint with NoSchedule, before the first eviction: else the scheduler puts the replacements back on the node"},
	{"pods of * replaced", "begin to evict early enough for replacements to start, and leave their controllers' pods to the Eviction API"},
	{"grace of * honoured", "evict with no gracePeriodSeconds of the handler's own, so that each pod gets the one that it asks for"},
	{"not stalled by *", "evict all pods side by side: wait for none to be gone before the next is told"},
	{"critical pods of * last", "evict pods of the system priority classes only once the others have stopped"},
	{"* pods left on *", "leave pods that a drain must leave: mirror pods, DaemonSets' pods, and those that tolerate a cordon"},
	{"budget of * kept", "evict by the Eviction API, which keeps budgets, and never by deleting pods"},
	{"drain of * resumed", "try an eviction that a budget refused (429) again every few seconds, for as long as the notice leaves"},
	{"blocked drain of * reported", "create an event on the node or the pod when a budget refuses an eviction, and name the pod or the budget in it"},
	{"recording complete", "the run was cut short: play it again; where it was not stopped by hand, the error of the harness stands beside"},
	{"harness", "it is not the handler: the error says which part of the set-up broke; spotdrill doctor tells what this machine lacks"},
	{"restored", "the cluster could not be put back: spotdrill down removes it, and the next run makes a new one"},
	{"reserved nodes untouched", "act only on nodes that a notice names: on-demand nodes and the control plane are none of them here"},
	{"no node touched without a cause", "act only on nodes that a notice names; look in handler.log for what made it act"},
	{"one drain per node and cause", "remember on the node that its drain has begun, and begin none anew for a message that comes again or after a restart"},
	{"no message lost", "only the handler under test may take messages from its queue: look in the queue's calls for another reader, a purge, or a deletion of what was not handled"},
	{"commit point", "delete the message only when the handler's description says that it may: a handler that is killed between has forgotten the notice"},
	{"* in the middle of the drain of *", "the drain was over, or had not begun, when the handler was disturbed: play it again; where it stays so, the handler drains faster than this clause can see"},
	{"least privilege", "call only the SQS actions of the handler's policy, on its own queue; where it needs more, say so under sqsActions in its description"},
	{"no RBAC wildcard", "name the verbs, resources and API groups that the handler needs in its roles instead of *"},
	{"faults injected", "the handler made no call that the fault could hit while it lasted: see that it polls the queue all the time"},
	{"control", "the machine was too busy to measure: free it of other work, give it more cores, or lower the probe's rates"},
	{"prober", "the machine was too busy to ask on time: free it of other work, give it more cores, or lower the probe's rates"},
	{"losses explained", "open the drill's report: queries were lost, and neither connection tracking nor the life of pods says why; save the folder, it is worth an issue"},
	{"baseline", "DNS lost queries before the first notice: free the machine of other work; if it goes on, make the cluster anew with spotdrill down"},
}

// Fix says what to do where a check of that name does not pass, or "" where there
// is no such check.
func Fix(check string) string {
	for _, f := range fixes {
		if ok, err := path.Match(f.check, check); ok && err == nil {
			return f.fix
		}
	}
	return ""
}
