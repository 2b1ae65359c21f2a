package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// MetadataFault makes the metadata service of a node's instance fail. It begins with its step and
// ends when its time is over. Only a handler that reads metadata can meet it.
type MetadataFault struct {
	// Name identifies the fault in later steps and in checks.
	Name string `yaml:"name"`
	// Node is the node whose instance it is.
	Node string `yaml:"node"`
	// Type is what goes wrong; docs/faults.md describes what a client sees.
	Type history.MetadataFaultType `yaml:"type"`
	// For is how long the fault lasts.
	For strict.Duration `yaml:"for"`
	// By is the delay of each answer, with type delay.
	By strict.Duration `yaml:"by,omitempty"`
	// Status is the HTTP status, with type error: 500 or 503.
	Status int `yaml:"status,omitempty"`
}

// String is the fault in words.
func (f MetadataFault) String() string {
	text := fmt.Sprintf("metadata fault %s: %s", f.Name, f.Type) + detail("by", f.By) + detail("for", f.For)
	if f.Status != 0 {
		text += fmt.Sprintf(" with status %d", f.Status)
	}
	return text + " on " + f.Node
}

func (f MetadataFault) is(t history.FaultType) bool { return f.Type == history.MetadataFaultType(t) }

func (f MetadataFault) validate(where string, in *scope, p *problems) {
	in.faults.define(where, f.Name, p)
	in.once(where, f.Name, in.disturbances, p)
	if !in.handler {
		p.add(where, "needs a handler: nobody else reads metadata")
	}
	in.node(where, f.Node, p)
	if capacity, ok := in.capacity[f.Node]; ok && capacity != string(coredns.OnSpot) {
		p.add(where+".node", "%q has capacity %s: only spot nodes have the service here", f.Node, capacity)
	}
	oneOf(p, where+".type", f.Type, history.MetadataFaultTypes())
	p.positive(where+".for", f.For)
	p.onlyWith(where+".by", f.By > 0, f.is(history.Delay), "type delay")
	p.onlyWith(where+".status", f.Status != 0, f.is(history.ServerError), "type error")
	p.serverError(where+".status", f.Status)
}

func (f MetadataFault) effect() effect {
	return effect{nodes: []string{f.Node}, shared: true, begins: f.Name, lasts: f.For.D()}
}

// NeedsMetadata reports whether only a handler that reads metadata can be drilled.
func (s Scenario) NeedsMetadata() bool {
	return len(stepsOf[MetadataFault](s)) > 0 || s.Initializes()
}

// NeedsQueue is why only a handler that reads a queue can be drilled, or "".
func (s Scenario) NeedsQueue() string {
	for _, step := range s.Steps {
		why := ""
		switch do := step.Do().(type) {
		case Message:
			why = "it sends messages"
		case Fault:
			why = "the queue fails in it"
		case Await:
			if do.Received != "" {
				why = "it waits until a message is received"
			}
		case Notice:
			why = s.unannounceable(do)
		}
		if why != "" {
			return why
		}
	}
	if slices.ContainsFunc(s.Checks, func(c Check) bool { return c.Calls != nil }) {
		return "it counts calls to the queue"
	}
	if slices.ContainsFunc(s.Checks, func(c Check) bool { return c.StopsCleanly != nil }) {
		return "it judges which messages are received after SIGTERM"
	}
	return ""
}

// unannounceable is why a notice cannot be in the metadata of the instances that it names, or "".
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
func (s Scenario) unannounceable(n Notice) string {
	announced := []history.NoticeType{history.SpotInterruption, history.RebalanceRecommendation, history.ScheduledChange}
	switch {
	case !slices.Contains(announced, n.Type):
		return "metadata does not announce " + string(n.Type)
	case len(n.Nodes) == 0:
		return "its notice names an instance that has no node"
	case n.Age > 0 || n.Zone != "":
		return "metadata says neither the age of a notice nor its zone"
	case n.Health != nil && *n.Health != (Health{StartsIn: n.Health.StartsIn}):
		return "metadata has no AWS Health events"
	}
	for _, name := range n.Nodes {
		pick := s.Nodes[name]
		if pick.Capacity != string(coredns.OnSpot) || pick.Launched != nil {
			return fmt.Sprintf("%s is no fixed spot node, and only those have the service here", name)
		}
	}
	return ""
}

// WithoutQueue returns the scenario for a handler that reads metadata, which has no messages to
// delete: without the waits for deletions and the checks of the queue.
func (s Scenario) WithoutQueue() Scenario {
	s.Steps = slices.DeleteFunc(slices.Clone(s.Steps), func(step Step) bool { return step.Await != nil && step.Await.Deleted != "" })
	s.Checks = slices.DeleteFunc(slices.Clone(s.Checks), func(c Check) bool { return c.Deleted != nil || c.QueueEmpty != nil })
	return s
}

// NeedsReplicas is why a handler that is a DaemonSet cannot be drilled, or "".
func (s Scenario) NeedsReplicas() string {
	for _, d := range stepsOf[Disturb](s) {
		switch d.Handler {
		case history.ScaleHandler, history.RetireHandler, history.MoveHandler, history.StopHandler:
			return "it changes where its replicas run"
		case history.CutOffHandler:
			return "it would cut off the nodes that the handler shares its network with"
		}
	}
	return ""
}

// MetadataTime is when what a notice announces happens, from the notice on: after the deadline of
// the set, or for a scheduled change, when it starts if the notice says so.
func (s Scenario) MetadataTime(n Notice, set Set) time.Duration {
	if n.Health != nil && n.Health.StartsIn > 0 {
		return n.Health.StartsIn.D()
	}
	return s.Deadline.For(set)
}
