package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Notice sends a notice through EventBridge. Its deadline starts to run.
type Notice struct {
	// Name identifies the notice in later steps and in checks.
	Name string `yaml:"name"`
	// Type is the type of the notice.
	Type history.NoticeType `yaml:"type"`
	// Nodes are the nodes whose instances the notice names. A type that names only one
	// instance is sent once for each node.
	Nodes []string `yaml:"nodes,omitempty"`
	// Fleet is how many nodes of the fleet the notices name, one each: the first ones.
	Fleet int `yaml:"fleet,omitempty"`
	// Every is the pause between two of these notices; left out, they are sent at once.
	Every strict.Duration `yaml:"every,omitempty"`
	// Instance is the id of an instance that is not in the cluster.
	Instance string `yaml:"instance,omitempty"`
	// InstanceLike is a node. The notice names an instance that is not in the cluster
	// and whose id differs from that node's only in its last character.
	InstanceLike string `yaml:"instanceLike,omitempty"`
	// FormerOf is a node. The notice names an instance that had the name of that node
	// before, and that EC2 lists as terminated.
	FormerOf string `yaml:"formerOf,omitempty"`
	// LaunchedSince is an earlier notice or reconfiguration. The notice names the instances that
	// were launched since, whether or not they have nodes.
	LaunchedSince string `yaml:"launchedSince,omitempty"`
	// Action is what a spot interruption announces; left out, it is terminate.
	Action string `yaml:"action,omitempty"`
	// State is the new state in a state change, such as stopping or running.
	State string `yaml:"state,omitempty"`
	// Age is how old the notice is when it is sent, by its own time. The deadline still
	// counts from when it is sent.
	Age strict.Duration `yaml:"age,omitempty"`
	// Zone is the zone that a spot interruption or rebalance recommendation names, such as
	// us-west-2-lax-1a; left out, it is the zone of the instance.
	Zone string `yaml:"zone,omitempty"`
	// Check is what EC2 finds, with type status-check. Nothing is sent: a handler has to ask.
	Check history.StatusCheck `yaml:"check,omitempty"`
	// Health are further fields of a scheduled change.
	Health *Health `yaml:"health,omitempty"`
}

// Health are fields of an AWS Health event, which is how a scheduled change is announced.
type Health struct {
	// Service is the AWS service that the event is about; left out, it is EC2.
	Service string `yaml:"service,omitempty"`
	// Status is the event's statusCode; left out, it is upcoming.
	Status history.HealthStatus `yaml:"status,omitempty"`
	// StartsIn is the time until the change starts; left out, it is two minutes.
	StartsIn strict.Duration `yaml:"startsIn,omitempty"`
	// Foreign is the number of instances that are not in the cluster and that the event
	// names before the nodes.
	Foreign int `yaml:"foreign,omitempty"`
	// NoEntities is set if the event names no entity at all.
	NoEntities bool `yaml:"noEntities,omitempty"`
	// Updates is an earlier notice with the same eventArn.
	Updates string `yaml:"updates,omitempty"`
}

// NoticeActions lists what a spot interruption can announce.
func NoticeActions() []string { return []string{"terminate", "stop", "hibernate"} }

// String is the notice in words.
func (n Notice) String() string {
	text := "notice " + n.Name + ": " + string(n.Type)
	if detail := cmp.Or(n.Action, n.State, string(n.Check)); detail != "" {
		text += " (" + detail + ")"
	}
	whom := slices.Clone(n.Nodes)
	if n.Fleet > 0 {
		whom = append(whom, n.fleetWords())
	}
	if n.Instance != "" {
		whom = append(whom, "instance "+n.Instance+", which is not in the cluster")
	}
	if n.InstanceLike != "" {
		whom = append(whom, "an instance that is not in the cluster, with an id like that of "+n.InstanceLike)
	}
	if n.FormerOf != "" {
		whom = append(whom, "a terminated instance that had the name of "+n.FormerOf)
	}
	if n.LaunchedSince != "" {
		whom = append(whom, "the instances that were launched since "+n.LaunchedSince)
	}
	if n.Age > 0 {
		text += ", " + n.Age.D().String() + " old,"
	}
	if n.Zone != "" {
		text += " of zone " + n.Zone
	}
	if n.Health != nil {
		text += n.Health.words()
		if n.Health.NoEntities {
			whom = append(whom, "no entity")
		}
	}
	return text + " for " + strings.Join(whom, ", ")
}

func (h Health) words() (text string) {
	if h.Service != "" {
		text += " of " + h.Service
	}
	if h.Status != "" {
		text += " (" + string(h.Status) + ")"
	}
	if h.StartsIn > 0 {
		text += " in " + h.StartsIn.D().String()
	}
	if h.Updates != "" {
		text += " as an update of " + h.Updates
	}
	if h.Foreign > 0 {
		text += fmt.Sprintf(" for %s outside the cluster and", history.Count(h.Foreign, "instance"))
	}
	return text
}

func (n Notice) validate(where string, in *scope, p *problems) {
	oneOfIfSet(p, where+".launchedSince", n.LaunchedSince, in.launching())
	in.Sent.define(where, n.Name, p)
	in.Named[n.Name] = n.Nodes
	if n.Fleet > 0 {
		in.Named[n.Name] = []string{FleetNodes}
	}
	oneOf(p, where+".type", n.Type, history.AllNoticeTypes())
	for _, node := range n.Nodes {
		oneOf(p, where+".nodes", node, in.Nodes)
	}
	n.validateFleet(where, in, p)
	targets, allowed := count(len(n.Nodes) > 0, n.Fleet != 0, n.Instance != "", n.InstanceLike != "", n.FormerOf != "", n.LaunchedSince != ""), 1
	if n.Health != nil {
		p.onlyWith(where+".health", true, n.Type == history.ScheduledChange, "type scheduled-change")
		earlier := slices.DeleteFunc(in.Notices(), func(name string) bool { return name == n.Name })
		n.Health.validate(where+".health", earlier, p)
		if n.Health.NoEntities {
			allowed = 0
		}
	}
	switch {
	case allowed == 0 && targets > 0:
		p.add(where, "must not have any of: fleet, formerOf, instance, instanceLike, launchedSince, nodes; health.noEntities shows it")
	case allowed == 1 && targets != 1:
		p.add(where, "requires exactly one of: fleet, formerOf, instance, instanceLike, launchedSince, nodes")
	}
	oneOfIfSet(p, where+".instanceLike", n.InstanceLike, in.Nodes)
	oneOfIfSet(p, where+".formerOf", n.FormerOf, in.Nodes)
	if n.Type == history.CapacityBlockExpiration {
		if len(n.Nodes) != 1 || orZero(in.Scenario.Nodes[n.Nodes[0]].Prepared).CapacityReservation == "" {
			p.add(where+".nodes", "requires one node with prepared.capacityReservation, with type %s", n.Type)
		}
	}
	if n.Zone != "" && n.Type != history.SpotInterruption && n.Type != history.RebalanceRecommendation {
		p.add(where+".zone", "is only allowed with the types spot-interruption and rebalance-recommendation: the others name no zone")
	}
	oneOfIfSet(p, where+".action", n.Action, NoticeActions())
	p.onlyWith(where+".check", n.Check != "", n.Type == history.StatusChecked, "type status-check")
	oneOfIfSet(p, where+".check", n.Check, history.StatusChecks())
	if n.Type == history.StatusChecked && len(n.Nodes) == 0 {
		p.add(where+".nodes", "is required with type status-check")
	}
	p.onlyWith(where+".state", n.State != "", n.Type == history.StateChange, "type state-change")
	if in.Scenario.Deadline.Fast <= 0 || in.Scenario.Deadline.Full <= 0 {
		p.add("deadline", "a scenario with a notice needs fast and full")
	}
}

func (h Health) validate(where string, notices []string, p *problems) {
	oneOfIfSet(p, where+".status", h.Status, history.HealthStatuses())
	p.atLeast0(where+".foreign", h.Foreign)
	if h.NoEntities && h.Foreign > 0 {
		p.add(where+".foreign", "is not allowed with noEntities")
	}
	oneOfIfSet(p, where+".updates", h.Updates, notices)
}

func (n Notice) effect() effect { return effect{nodes: n.Nodes, takes: n.lasts()} }
