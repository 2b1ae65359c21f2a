package scenarios

import (
	"maps"
	"slices"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// SharesWith is true for scenarios that can be drilled at the same time: they want
// cluster DNS alike, neither measures it nor does anything to what both use (the
// queue's answers, the handler, CoreDNS), and each does something to one spot worker
// at most. What they only look at may be the same.
func (s Scenario) SharesWith(other Scenario) bool {
	return s.shareable() && other.shareable() && s.CoreDNS == other.CoreDNS
}

func (s Scenario) shareable() bool {
	targets, spot := s.Targets(), 0
	if s.Probe != nil || s.Handler == HandlerNone || s.Workload.Spill || len(targets) > 1 {
		return false
	}
	for name, pick := range s.Nodes {
		isSpot := pick.Capacity == string(coredns.OnSpot)
		if pick.Runs != "" || slices.Contains(targets, name) && !isSpot {
			return false
		}
		if isSpot {
			spot++
		}
	}
	// One is the other drill's.
	return spot <= 2 && !slices.ContainsFunc(s.Steps, func(step Step) bool {
		return step.Fault != nil || step.Disturb != nil || step.Disrupt != nil
	})
}

// Targets are the names of the nodes that the scenario does something to: steps name
// them, or the workload puts pods on them. They are in order.
func (s Scenario) Targets() []string {
	targets := map[string]bool{}
	for _, pods := range s.Workload.Pods {
		targets[pods.Node] = true
	}
	for _, step := range s.Steps {
		if step.Notice != nil {
			for _, name := range step.Notice.Nodes {
				targets[name] = true
			}
		}
		if step.Reclaim != nil {
			targets[step.Reclaim.Node] = true
		}
		if step.Disrupt != nil {
			targets[step.Disrupt.Node] = true
		}
		if step.Message != nil {
			for name := range s.Nodes {
				if step.Message.Names(name) {
					targets[name] = true
				}
			}
		}
	}
	delete(targets, "")
	return slices.Sorted(maps.Keys(targets))
}
