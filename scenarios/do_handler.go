package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/history"
)

// onDemand is the capacity of the nodes where the handler and the recording proxy run.
const onDemand = string(coredns.OnOnDemand)

// handlerActions are done to the handler under test. It gets new pods before the next drill, or is
// installed again.
func handlerActions() map[Verb]action {
	return map[Verb]action{
		Kill:    disturbance(text("the handler is killed")),
		Restart: disturbance(text("the handler is restarted, pod by pod")),
		Delete:  disturbance(text("the pods of the handler are deleted")),
		Retire:  disturbance(text("the handler loses the replica that drains")),
		Stop:    lasting(text("the handler has no pod")),
		CutOff:  lasting(text("the handler is cut off from the Kubernetes API")),
		Scale: disturbance(func(d Do) string {
			return fmt.Sprintf("the handler is scaled to %s", history.Count(d.Replicas, "replica"))
		}, "replicas").
			and(func(d Do, where string, _ *scope, p *problems) {
				if d.Replicas < 0 || d.Replicas > 5 {
					p.add(where+".replicas", "%d is not within 1 to 5", d.Replicas)
				}
			}),
		Move: onRealNode(disturbance(func(d Do) string { return "the handler is moved to " + d.Node }, "node")).
			and(func(d Do, where string, in *scope, p *problems) {
				if in.Scenario.Nodes[d.Node].Capacity == onDemand {
					p.add(where+".node", "%q has capacity %s, where the handler is anyway", d.Node, onDemand)
				}
			}),
		Configure: {
			needs: []string{"name"}, allows: []string{"disrupts"},
			text: func(d Do) string {
				words := "the handler gets its other configuration of the feature"
				if len(d.Disrupts) > 0 {
					words += ", and is to remove " + strings.Join(d.Disrupts, ", ")
				}
				return words
			},
			validate: validateConfigured,
			effect: func(d Do) effect {
				n := len(d.Disrupts)
				return effect{takes: removal * time.Duration(n), nodes: d.Disrupts, alone: []Resource{HandlerProcess}, allDNSPods: n > 0}
			},
		},
	}
}

// disturbance is an action on the running handler, with a name that checks refer to.
func disturbance(words func(Do) string, needs ...string) action {
	return action{
		needs: append([]string{"name"}, needs...), text: words, effect: alone(HandlerProcess),
		validate: func(d Do, where string, in *scope, p *problems) {
			in.Disturbances.define(where, d.Name, p)
			in.once(where, d.Name, in.Faults, p)
			if in.Scenario.Handler == HandlerNone {
				p.add(where, "the scenario has no handler")
			}
		},
	}
}

// lasting is a disturbance that lasts.
func lasting(words func(Do) string) action {
	a := disturbance(words, "for")
	a.allows = []string{"meanwhile"}
	a.effect = func(d Do) effect {
		e := alone(HandlerProcess)(d)
		if d.Meanwhile {
			e.begins, e.lasts = d.Name, d.For.D()
		}
		return e
	}
	return a
}

// and adds a check of the step.
func (a action) and(also func(d Do, where string, in *scope, p *problems)) action {
	first := a.validate
	a.validate = func(d Do, where string, in *scope, p *problems) {
		first(d, where, in, p)
		also(d, where, in, p)
	}
	return a
}

// removal is how long it takes until a node that the handler removes without a notice is
// drained: Karpenter looks every 10 s, validates for 15 s, and waits for the replacement.
const removal = time.Minute

func validateConfigured(d Do, where string, in *scope, p *problems) {
	in.Reconfigured.define(where, d.Name, p)
	for _, others := range []names{in.Faults, in.Disturbances, in.Sent} {
		in.once(where, d.Name, others, p)
	}
	for _, name := range d.Disrupts {
		oneOf(p, where+".disrupts", name, in.Nodes)
	}
	in.Disrupted = append(in.Disrupted, d.Disrupts...)
	if !slices.Contains(feature.Reconfigured(), in.Scenario.Feature) {
		p.add(where, "requires as feature one of: %s", strings.Join(feature.Reconfigured(), ", "))
	}
}

// Disturbances returns the steps that do something to the running handler.
func (s Scenario) Disturbances() []Do {
	return slices.DeleteFunc(s.Actions(OnHandler), func(d Do) bool { return d.Verb == Configure })
}

// Disturbed reports whether a step disturbs the handler, or takes a pod of it off a node.
func (s Scenario) Disturbed() bool { return len(s.Disturbances()) > 0 || s.Labels() }

// ChangesHandler reports whether a step changes the handler's objects, or where it runs.
func (s Scenario) ChangesHandler() bool { return len(s.Actions(OnHandler, Move, Configure)) > 0 }
