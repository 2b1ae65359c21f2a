package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
)

// NeedsMetadata reports whether only a handler that reads metadata can be drilled.
func (s Scenario) NeedsMetadata() bool {
	return len(s.faultsOn(history.OnMetadata)) > 0 || s.Labels()
}

// MetadataElsewhere is the first node whose metadata fails without the handler having been moved there, or "".
func (s Scenario) MetadataElsewhere() string {
	moved := map[string]bool{"": true}
	for _, step := range s.Steps {
		switch do := step.Kind().(type) {
		case Do:
			moved[do.Node] = moved[do.Node] || do.Target == OnHandler && do.Verb == Move
		case Fault:
			if do.On == history.OnMetadata && !moved[do.Node] {
				return do.Node
			}
		}
	}
	return ""
}

// NeedsQueue is why only a handler that reads a queue can be drilled, or "".
func (s Scenario) NeedsQueue() string {
	for _, step := range s.Steps {
		why := ""
		switch do := step.Kind().(type) {
		case Message:
			why = "it sends messages"
		case Fault:
			if do.On == history.OnQueue {
				why = "the queue fails in it"
			}
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
	for _, needs := range s.needs() {
		if needs.Queue != "" {
			return needs.Queue
		}
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
	case n.Fleet > 0:
		return "its nodes are virtual, and have no instance metadata"
	case len(n.Nodes) == 0:
		return "its notice names an instance that has no node"
	case n.Age > 0 || n.Zone != "":
		return "metadata has neither the age of a notice nor its zone"
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
	s.Checks = slices.DeleteFunc(slices.Clone(s.Checks), func(c Check) bool { return c.needs().Messages })
	return s
}

// NeedsReplicas is why a handler that is a DaemonSet cannot be drilled, or "".
func (s Scenario) NeedsReplicas() string {
	switch {
	case len(s.Actions(OnHandler, Scale, Retire, Move, Stop)) > 0:
		return "it changes where its replicas run"
	case len(s.Actions(OnHandler, CutOff)) > 0:
		return "it would cut off the nodes that the handler shares its network with"
	}
	return ""
}

// MetadataTime is when what a notice announces happens, from the notice on: after the deadline of
// the set, or for a scheduled change, when it starts if the notice shows it.
func (s Scenario) MetadataTime(n Notice, set Set) time.Duration {
	if n.Health != nil && n.Health.StartsIn > 0 {
		return n.Health.StartsIn.D()
	}
	return s.Deadline.For(set)
}
