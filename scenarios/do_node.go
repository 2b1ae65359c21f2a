package scenarios

import (
	"fmt"
	"slices"
	"time"
)

// nodeActions are done to a node by an operator or the cloud. A node that is deleted or down, or whose
// kubelet stops, keeps its drill's pods: a simultaneous drill would wait for its recovery, too.
func nodeActions() map[Verb]action {
	return map[Verb]action{
		Drain: {
			needs: []string{"node"}, allows: []string{"meanwhile", "timeout", "force"}, effect: alone(Recovery),
			text: func(d Do) string {
				words := d.Node + " is drained as kubectl does"
				if d.Timeout > 0 {
					words += fmt.Sprintf(", for at most %s", d.Timeout.D())
				}
				if d.Force {
					words += ", and the pods that are left are deleted"
				}
				return words
			},
			validate: func(d Do, where string, in *scope, p *problems) {
				operated(d, where, in, p)
				p.upTo(where+".timeout", d.Timeout.D(), maxDrain)
			},
		},
		Uncordon: {
			needs: []string{"node"}, allows: []string{"untaint"}, validate: operated, effect: onNode,
			text: func(d Do) string {
				if d.Untaint {
					return d.Node + " is uncordoned, and the handler's taints are removed"
				}
				return d.Node + " is uncordoned"
			},
		},
		Touch: {
			needs: []string{"node"}, validate: operated, effect: onNode,
			text: func(d Do) string { return "somebody else changes the Node object of " + d.Node },
		},
		Delete: {
			needs: []string{"node"}, allows: []string{"name"}, effect: alone(Recovery),
			text: func(d Do) string { return "the Node object of " + d.Node + " is deleted" },
			validate: func(d Do, where string, in *scope, p *problems) {
				operated(d, where, in, p)
				if d.Name == "" {
					return
				}
				in.Deletions.define(where, d.Name, p)
				for _, others := range []names{in.Faults, in.Disturbances, in.Sent, in.Reconfigured} {
					in.once(where, d.Name, others, p)
				}
				in.Disrupted = append(in.Disrupted, d.Node)
			},
		},
		Join: onRealNode(action{
			needs: []string{"node"}, allows: []string{"withoutProviderID"}, validate: operated, effect: alone(Recovery),
			text: func(d Do) string {
				if d.WithoutProviderID {
					return d.Node + " joins the cluster again, without a providerID"
				}
				return d.Node + " joins the cluster again, as the same instance"
			},
		}),
		Label:   operation(HandlerProcess, func(d Do) string { return d.Node + " gets the labels that the handler's pods need" }),
		Unlabel: operation(HandlerProcess, func(d Do) string { return d.Node + " loses the labels that the handler's pods need" }),
	}
}

func kubeletActions() map[Verb]action {
	return map[Verb]action{Stop: operation(Recovery, func(d Do) string { return "the kubelet of " + d.Node + " stops" })}
}

func instanceActions() map[Verb]action {
	return map[Verb]action{Start: operation(Recovery, func(d Do) string { return "the instance of " + d.Node + " starts again" })}
}

// operation is an action on a real node that has no other fields.
func operation(of Resource, words func(Do) string) action {
	return onRealNode(action{needs: []string{"node"}, text: words, validate: operated, effect: alone(of)})
}

// onRealNode is an action that no virtual node is enough for: something runs there because of it, or a kubelet
// does something.
func onRealNode(a action) action {
	does := a.effect
	a.effect = func(d Do) effect {
		e := does(d)
		e.real = true
		return e
	}
	return a
}

// maxDrain bounds the time of a drain.
const maxDrain = 2 * time.Minute

// operated checks that the node can be operated on.
func operated(d Do, where string, in *scope, p *problems) {
	if node := in.Scenario.Nodes[d.Node]; node.Capacity == onDemand && node.Launched == nil {
		p.add(where+".node", "%q has capacity %s, where the handler and the recording proxy run", d.Node, onDemand)
	}
}

// Labels reports whether a step changes if the handler's pods may be on a node.
func (s Scenario) Labels() bool { return len(s.Actions(OnNode, Label, Unlabel)) > 0 }

// DeletesUnnoticed reports whether a step deletes the Node object of a running instance before
// any notice names it, as if it had not joined yet. A handler whose finalizer holds that
// object would drain the node instead.
func (s Scenario) DeletesUnnoticed() bool {
	var noticed []string
	for _, step := range s.Steps {
		switch do := step.Kind().(type) {
		case Notice:
			noticed = append(noticed, do.Nodes...)
		case Do:
			if do.Target == OnNode && do.Verb == Delete && do.Name == "" && !slices.Contains(noticed, do.Node) {
				return true
			}
		}
	}
	return false
}
