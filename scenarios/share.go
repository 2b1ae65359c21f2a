package scenarios

import (
	"maps"
	"slices"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// SharesWith reports whether two scenarios can be drilled at the same time: they need
// the same CoreDNS settings, neither measures DNS or acts on what both use (queue,
// handler, CoreDNS), has a second handler, has nodes launched or counts its calls, and each
// acts on at most one spot worker. Nodes that they only observe may be the same.
func (s Scenario) SharesWith(other Scenario) bool {
	return s.shareable() && other.shareable() && s.CoreDNS.Equal(other.CoreDNS)
}

func (s Scenario) shareable() bool {
	targets, spot := s.Targets(), 0
	if s.Probe != nil || s.Handler == HandlerNone || s.OtherHandler != nil || s.Launches() > 0 || s.Workload.Spill || s.Workload.SecurityGroups || len(targets) > 1 {
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
	// What the handler calls for the other drill would count.
	if slices.ContainsFunc(s.needs(), func(n Needs) bool { return n.APICalls }) {
		return false
	}
	// One is left for the other drill.
	return spot <= 2 && !slices.ContainsFunc(s.effects(), func(e effect) bool { return e.shared })
}

// Targets returns the names of the nodes that the scenario acts on, sorted: they are
// prepared, steps act on them, or the workload puts pods on them.
func (s Scenario) Targets() []string {
	targets := map[string]bool{}
	for _, pods := range s.Workload.Pods {
		targets[pods.Node] = true
	}
	for _, e := range s.effects() {
		for _, name := range e.nodes {
			targets[name] = true
		}
	}
	for _, name := range s.prepared() {
		targets[name] = true
	}
	delete(targets, "")
	return slices.Sorted(maps.Keys(targets))
}
