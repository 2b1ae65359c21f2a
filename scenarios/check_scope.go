package scenarios

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Scope is what the parameters of a check can refer to, and where their problems are reported.
type Scope struct {
	in    *scope
	where string // the path of the check
	p     *problems
}

// Problem reports what is wrong with a parameter, or with the check itself if it names none.
func (s *Scope) Problem(parameter, format string, args ...any) {
	s.p.add(s.path(parameter), format, args...)
}

func (s *Scope) path(parameter string) string {
	if parameter == "" {
		return s.where
	}
	return s.where + "." + parameter
}

// OneOf reports a value that is not among the allowed ones.
func (s *Scope) OneOf(parameter, value string, allowed []string) {
	oneOf(s.p, s.path(parameter), value, allowed)
}

// ExactlyOne reports parameters, by their names, of which not exactly one is given.
func (s *Scope) ExactlyOne(names string, given ...bool) {
	if count(given...) != 1 {
		s.Problem("", "requires exactly one of: %s", names)
	}
}

// Positive reports a duration that is not more than 0.
func (s *Scope) Positive(parameter string, d strict.Duration) { s.p.positive(s.path(parameter), d) }

// AtLeast0 reports a negative number.
func (s *Scope) AtLeast0(parameter string, n int) { s.p.atLeast0(s.path(parameter), n) }

// Node checks the parameter node.
func (s *Scope) Node(name string) { s.in.node(s.where, name, s.p) }

// NoticeFor checks the parameters node and notice: the notice must name the node.
func (s *Scope) NoticeFor(node, notice string) { s.in.noticeFor(s.where, node, notice, s.p) }

// NoticeForTwo checks the same parameters of a check of two handlers.
func (s *Scope) NoticeForTwo(node, notice string) { s.in.noticeForTwo(s.where, node, notice, s.p) }

// PodsFor checks the parameters node, notice and pods.
func (s *Scope) PodsFor(node, notice, pods string) { s.in.podsFor(s.where, node, notice, pods, s.p) }

// BudgetFor checks the same parameters of a check of pods with a budget.
func (s *Scope) BudgetFor(node, notice, pods string) {
	s.in.budgetFor(s.where, node, notice, pods, s.p)
}

// After checks the parameter after: a fault, a disturbance, or nothing.
func (s *Scope) After(name string) { s.in.after(s.where, name, s.p) }

// NeedsProbe reports a problem if the scenario has no probe.
func (s *Scope) NeedsProbe() { s.in.needsProbe(s.where, s.p) }

// NeedsApplication reports a problem if the scenario probes no application.
func (s *Scope) NeedsApplication(mode string) { s.in.needsApplication(s.where, mode, s.p) }

// Deadline is the scenario's.
func (s *Scope) Deadline() Deadline { return s.in.deadline }

// Nodes are the names under nodes.
func (s *Scope) Nodes() []string { return s.in.nodes }

// Reclaimed are the nodes whose instance is taken.
func (s *Scope) Reclaimed() []string { return s.in.reclaimed }

// Disrupted are the nodes that the handler is to remove without a notice.
func (s *Scope) Disrupted() []string { return s.in.disrupted }

// Prepared reports whether something is prepared on a node.
func (s *Scope) Prepared(node string) bool { return s.in.prepared[node] }

// Pods are the groups of the workload.
func (s *Scope) Pods() []string { return s.in.pods }

// DaemonSets are those that steps deploy.
func (s *Scope) DaemonSets() []string { return s.in.daemonSets }

// Upgraded are the add-ons that steps upgrade.
func (s *Scope) Upgraded() []string { return s.in.upgraded }

// Sent are the notices and messages.
func (s *Scope) Sent() []string { return s.in.sent }

// Notices are the notices.
func (s *Scope) Notices() []string { return s.in.noticeNames() }

// Named are the nodes that a notice names.
func (s *Scope) Named(notice string) []string { return s.in.notices[notice] }

// Flood is how long the messages of a step are sent; false if it is sent once.
func (s *Scope) Flood(message string) (time.Duration, bool) {
	lasts, ok := s.in.floods[message]
	return lasts, ok
}

// Faults are those of the queue.
func (s *Scope) Faults() []string { return s.in.faults }

// APIFault checks a parameter: a fault on the API server of one of these types. It returns the fault.
func (s *Scope) APIFault(parameter, name string, types ...history.FaultType) (Fault, bool) {
	return s.in.apiFault(s.path(parameter), name, s.p, types...)
}

// Disturbances are those of the handler.
func (s *Scope) Disturbances() []string { return s.in.disturbances }

// BudgetChanges are the steps that change a budget.
func (s *Scope) BudgetChanges() []string { return s.in.budgetChanges }

// Reconfigured are the steps that configure the handler otherwise.
func (s *Scope) Reconfigured() []string { return s.in.reconfigured }

// Deletions are the steps by which an operator deletes a Node object.
func (s *Scope) Deletions() []string { return s.in.deletions }
