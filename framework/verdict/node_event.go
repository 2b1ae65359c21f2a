package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// NodeEvent has the parameters of checkNodeEvent.
type NodeEvent struct {
	Node   string          `yaml:"node"`
	Notice string          `yaml:"notice"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c NodeEvent) Validate(in *scenarios.Scope) {
	in.NoticeFor(c.Node, c.Notice)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c NodeEvent) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Sent[c.Notice]+c.Within.D()).On(c.Node, t)
}

var checkNodeEvent = check{
	Kind: Kind{
		ID: "nodeEvent", Title: "event on %s",
		Requires: "A Kubernetes event of the handler about the node appears within a time of the notice.",
		Fix:      "create a Kubernetes event on the Node when a notice arrives; if the handler does, check that its RBAC lets it create events, and name the events' reporter under marks in its description",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: what the handler reported about the node, and when"},
	},
	judge: by(nodeEvent), needs: scenarios.Needs{NodeEvents: true},
}

func nodeEvent(j judge, v Verdict, c NodeEvent) Verdict {
	v = v.wants(fmt.Sprintf("a Kubernetes event on the node within %s of notice %q", c.Within.D(), c.Notice), c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	e, ok := j.First(func(e history.Event) bool { return j.onNode(e, put) && j.handlers(e, put) })
	limit := limit{from: put.At, evidence: []history.Event{put}}
	if ok {
		limit = j.extended(limit, put, e.At, c.Within.D())
	}
	until := min(limit.from+c.Within.D(), j.Gone(node))
	switch {
	case ok && e.At <= until:
		v.Numbers = map[string]float64{"event_seconds": (e.At - limit.from).Seconds()}
		return v.pass(fmt.Sprintf("%s by %s after %s", e.KubernetesReason(), e.Owner, limit.after(e.At)), append(limit.evidence, e)...)
	case j.Unseen(until) != "":
		return v.unknown("no event: "+j.Unseen(until), put)
	case ok && j.mayBeInTime(e, until) != "":
		return v.unknown(fmt.Sprintf("%s by %s after %s: %s", e.KubernetesReason(), e.Owner, limit.after(e.At), j.mayBeInTime(e, until)), append(limit.evidence, e)...)
	case ok:
		if why := j.handlerWaited(limit.from, e.At, until); why != "" {
			return v.noise(fmt.Sprintf("%s by %s after %s: %s", e.KubernetesReason(), e.Owner, limit.after(e.At), why), append(limit.evidence, e)...)
		}
		return v.fail(fmt.Sprintf("%s by %s, but only after %s", e.KubernetesReason(), e.Owner, limit.after(e.At)), append(limit.evidence, e)...)
	}
	if foreign, ok := j.First(func(e history.Event) bool { return j.onNode(e, put) && e.At <= until }); ok {
		return v.unknown(fmt.Sprintf("only %s by %s, and nothing shows that this is the handler: name its reporter under marks in its description", foreign.KubernetesReason(), foreign.Owner), put, foreign)
	}
	return v.fail("no event on "+node+" except those of Kubernetes itself", put)
}

// onNode reports whether an event about the node of the notice came after it, and not
// from Kubernetes itself.
func (j judge) onNode(e, put history.Event) bool {
	return e.About("Node") && e.Node == put.Node && e.At >= put.At && !story.KubernetesComponent(e.Owner)
}

// handlers reports whether the handler reported the event. If its description does not
// name its reporter, that shows by the handler's names, or by an event that is about the
// notice: add-ons report about nodes too, such as that one has no GPU.
func (j judge) handlers(e, put history.Event) bool {
	handler := j.History.Meta.Handler
	if handler.Reporter != "" {
		return e.Owner == handler.Reporter
	}
	_, workload, _ := strings.Cut(handler.Workload(), "/")
	return e.Owner == handler.Name || e.Owner == workload ||
		put.Instance != "" && strings.Contains(e.Note, put.Instance) || put.Notice != "" && strings.Contains(e.Note, put.Notice) ||
		slices.ContainsFunc(aboutInterruption(), func(word string) bool { return strings.Contains(strings.ToLower(e.KubernetesReason()), word) })
}

// aboutInterruption are words of the reasons by which handlers report an interruption.
func aboutInterruption() []string {
	return []string{"interrupt", "rebalance", "drain", "stopping", "terminating", "scheduledchange", "scheduledevent", "statechange"}
}
