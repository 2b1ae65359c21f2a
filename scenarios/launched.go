package scenarios

import (
	"fmt"
	"regexp"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Launched is the instance that a node is, if it is launched for the drill.
type Launched struct {
	// Type is an EC2 instance type, such as m5.large. The node has as much for pods as such
	// an instance, as far as the machine has it.
	Type string `yaml:"type"`
	// Zone is its availability zone, such as ap-northeast-2c; left out, that of the cluster's
	// other nodes.
	Zone string `yaml:"zone,omitempty"`
}

var (
	instanceType = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`)
	zoneName     = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d+[a-z]$`)
)

func (l *Launched) validate(where string, pick Pick, p *problems) {
	if l == nil {
		return
	}
	if !instanceType.MatchString(l.Type) {
		p.add(where+".type", "%q is no EC2 instance type such as m5.large", l.Type)
	}
	if l.Zone != "" && !zoneName.MatchString(l.Zone) {
		p.add(where+".zone", "%q is no availability zone such as ap-northeast-2c", l.Zone)
	}
	if pick.Runs != "" {
		p.add(where, "cannot be set with runs: pods are on the other nodes when it is launched")
	}
}

// Launches is how many nodes are launched for the drill, at most. A handler that launches
// nodes for CoreDNS launches another one for each that it drains.
func (s Scenario) Launches() int {
	n := 0
	if s.CoreDNS.Placement == coredns.Launched {
		n = s.CoreDNS.Replicas + 1
	}
	for _, f := range s.faultsOn(history.OnEC2) {
		if f.Type.OfInstances() {
			n += f.Count
		}
	}
	for _, step := range s.Actions(OnHandler, Configure) {
		n = max(n, s.CoreDNS.Replicas+len(step.Disrupts))
	}
	for _, pick := range s.Nodes {
		if pick.Launched != nil {
			n++
		}
	}
	return n
}

// validateLaunches requires a handler that launches nodes where CoreDNS waits for them, or EC2
// refuses them.
func (s Scenario) validateLaunches(p *problems) {
	if feature.Launching(s.Feature) {
		return
	}
	const why = "requires feature: " + feature.Launch + ", so that only a handler that launches nodes is drilled"
	if s.CoreDNS.Placement == coredns.Launched {
		p.add("coredns.placement", "%q %s", coredns.Launched, why)
	}
	for name, pick := range s.Nodes {
		if pick.Prepared != nil && pick.Prepared.DoNotDisrupt {
			p.add("nodes."+name+".prepared.doNotDisrupt", why)
		}
	}
	for i, step := range s.Steps {
		if step.Do != nil && step.Do.Target == OnWorkload && step.Do.Verb == Create {
			p.add(fmt.Sprintf("steps[%d].do", i), why)
		}
		if step.Fault != nil && step.Fault.On == history.OnEC2 {
			p.add(fmt.Sprintf("steps[%d].fault", i), "on %s %s", step.Fault.On, why)
		}
	}
}
