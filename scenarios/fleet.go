package scenarios

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Fleet are virtual spot nodes that join the cluster for the drill: kwok keeps them Ready, and reports the pods on them
// as running. Their instances are launched in LocalStack's EC2. A notice can name many of them at once, as when EC2
// takes a whole pool. Pods on them end as soon as they are deleted.
type Fleet struct {
	// Nodes is how many there are.
	Nodes int `yaml:"nodes"`
}

// FleetNodes is the name by which a check refers to every node of the fleet that its notice names.
const FleetNodes = "fleet"

// FleetPrefix begins the names that stand for single nodes of the fleet, such as fleet-1.
const FleetPrefix = FleetNodes + "-"

// maxFleet bounds the nodes of a fleet: a storm of 500 nodes, and others that take their pods.
const maxFleet = 620

// maxNotices bounds the time in which the notices of a fleet are sent: the last comes well before the deadline of the first.
const maxNotices = time.Minute

// fleetNodes are the nodes of the fleet, if there is one.
func (s Scenario) fleetNodes() int { return orZero(s.Fleet).Nodes }

func (s Scenario) validateFleet(p *problems) {
	if s.Fleet != nil && (s.Fleet.Nodes < 1 || s.Fleet.Nodes > maxFleet) {
		p.add("fleet.nodes", "%d is not within 1 to %d", s.Fleet.Nodes, maxFleet)
	}
	if _, taken := s.Nodes[FleetNodes]; taken && s.Fleet != nil {
		p.add("nodes."+FleetNodes, "is the name of the nodes of the fleet")
	}
	if s.Workload.Fleet && s.Fleet == nil {
		p.add("workload.fleet", "requires a fleet")
	}
}

// validateFleet checks what a notice names of the fleet.
func (n Notice) validateFleet(where string, in *scope, p *problems) {
	if n.Fleet == 0 {
		p.onlyWith(where+".every", n.Every != 0, false, "fleet")
		return
	}
	if n.Fleet < 0 || n.Fleet > in.Scenario.fleetNodes() {
		p.add(where+".fleet", "%d is not within 1 to %s", n.Fleet, history.Count(in.Scenario.fleetNodes(), "node"))
	}
	if n.Type != history.SpotInterruption && n.Type != history.RebalanceRecommendation {
		p.add(where+".fleet", "is only allowed with the types %s and %s: of these, each instance has a notice of its own", history.SpotInterruption, history.RebalanceRecommendation)
	}
	if n.Every < 0 || n.lasts() > maxNotices {
		p.add(where+".every", "the notices take %s, which is not within 0s to %s", n.lasts(), maxNotices)
	}
}

// lasts is the time from the first notice to the last.
func (n Notice) lasts() time.Duration { return time.Duration(max(0, n.Fleet-1)) * n.Every.D() }

// fleetWords is what a notice names of the fleet.
func (n Notice) fleetWords() string {
	text := history.Count(n.Fleet, "node") + " of the fleet"
	if n.Every > 0 {
		text += fmt.Sprintf(", one every %s", n.Every.D())
	}
	return text
}

// FleetNotice checks the parameters node and notice, where node may be FleetNodes.
func (s *Scope) FleetNotice(node, notice string) {
	if node != FleetNodes || s.Scenario.Fleet == nil {
		s.NoticeFor(node, notice)
		return
	}
	s.names(notice, node, "names no node of the fleet")
}
