package scenarios

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Fault makes the queue, the API server, EC2 or instance metadata fail for the handler, and for
// nobody else. It begins with its step. It ends when its time is over or when it has affected its last
// call, whichever comes first, and at the latest when the drill ends.
type Fault struct {
	fault.Fault `yaml:",inline"`
}

func (f Fault) validate(where string, in *scope, p *problems) {
	in.begun = append(in.begun, f)
	in.Faults.define(where, f.Name, p)
	in.once(where, f.Name, in.Disturbances, p)
	for _, problem := range f.Problems() {
		at := where
		switch problem.Field {
		case "name": // define has reported it
			continue
		case "":
		default:
			at += "." + problem.Field
		}
		p.add(at, "%s", problem.Text)
	}
	if in.Scenario.Handler == HandlerNone && f.On != history.OnQueue && f.On != history.OnEC2 {
		p.add(where, "needs a handler: nobody else is affected")
	}
	if f.Node != "" {
		in.node(where, f.Node, p)
	}
	if f.AtNode() != "" {
		oneOf(p, where+".at", f.AtNode(), in.Nodes)
	}
	if node, ok := in.Scenario.Nodes[f.Node]; ok && node.Capacity != string(coredns.OnSpot) {
		p.add(where+".node", "%q has capacity %s: only spot nodes have the service here", f.Node, node.Capacity)
	}
}

func (f Fault) effect() effect {
	e := effect{begins: f.Name, lasts: f.For.D(), real: f.On == history.OnMetadata}
	if of, ok := map[history.FaultTarget]Resource{
		history.OnQueue: HandlerQueue, history.OnAPI: APIProxy, history.OnEC2: Launches, history.OnMetadata: Metadata,
	}[f.On]; ok {
		e.alone = []Resource{of}
	}
	if f.Node != "" {
		e.nodes = []string{f.Node}
	}
	return e
}

// Faults returns the faults that the steps begin, in the order of the steps.
func (s Scenario) Faults() []Fault { return stepsOf[Fault](s) }

// faultsOn returns those of a target.
func (s Scenario) faultsOn(on history.FaultTarget) []Fault {
	return slices.DeleteFunc(s.Faults(), func(f Fault) bool { return f.On != on })
}

// DeliversToAnother reports whether a copy of a message is to be received by another replica.
func (s Scenario) DeliversToAnother() bool {
	return slices.ContainsFunc(s.Faults(), func(f Fault) bool { return f.ToAnother })
}
