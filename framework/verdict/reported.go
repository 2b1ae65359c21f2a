package verdict

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Reported has the parameters of checkReported. Exactly one of node and text is set.
type Reported struct {
	// Node is the node that the event is about.
	Node   string `yaml:"node,omitempty"`
	Notice string `yaml:"notice"`
	// Text is a part of the text of an event about a pod, such as the name of a resource.
	Text   string          `yaml:"text,omitempty"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Reported) Validate(in *scenarios.Scope) {
	in.ExactlyOne("node, text", c.Node != "", c.Text != "")
	if c.Node != "" {
		in.NoticeFor(c.Node, c.Notice)
	} else {
		in.OneOf("notice", c.Notice, in.Notices())
	}
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Reported) DecidedBy(t scenarios.Times) scenarios.Observation {
	by := scenarios.Happens(t.Sent[c.Notice] + c.Within.D())
	if c.Node == "" {
		return by
	}
	return by.On(c.Node, t)
}

// Needs is what it needs of a drill.
func (c Reported) Needs() scenarios.Needs { return scenarios.Needs{NodeEvents: c.Node != ""} }

var checkReported = by(Kind{
	ID: "reported", Title: "event on %s, or pending pod reported after %s", Verdicts: []ID{"nodeEvent", "podReported"},
	Requires: "A Kubernetes event of the handler appears within a time of the notice: about the node, or about a pod that finds no node, with what the pod requests and no instance type that the handler may launch has.",
	Fix:      "create a Kubernetes event on the Node when a notice arrives; if the handler does, check that its RBAC lets it create events, and name the events' reporter under marks in its description",
	Fixes: map[ID]string{
		"podReported": "create a Kubernetes event on a pod that stays pending, with the request that no instance type meets; check that the RBAC of the handler lets it create events",
	},
	Look: Look{Lane: LaneHandler, Text: "the lane Handler: what the handler reported about the node or the pod, and when"},
}, func(j judge, v Verdict, c Reported) Verdict {
	if c.Node == "" {
		return podReported(j, v.as("podReported", "pending pod reported after %s"), c)
	}
	return nodeEvent(j, v.as("nodeEvent", "event on %s"), c)
})

func nodeEvent(j judge, v Verdict, c Reported) Verdict {
	v = v.requires(fmt.Sprintf("a Kubernetes event on the node within %s of notice %q", c.Within.D(), c.Notice), c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	e, ok := j.First(func(e history.Event) bool {
		return story.ReportsOn(j.Story, e, put) && story.ByHandler(j.Story, e, put)
	})
	timer := story.Countdown{From: put.At, Evidence: []history.Event{put}}
	if ok {
		timer = j.Extended(timer, put, e.At, c.Within.D())
	}
	until := min(timer.From+c.Within.D(), j.Gone(node))
	switch {
	case ok && e.At <= until:
		v.Numbers = map[string]float64{"event_seconds": (e.At - timer.From).Seconds()}
		return v.pass(fmt.Sprintf("%s by %s after %s", e.KubernetesReason(), e.Owner, timer.After(e.At)), append(timer.Evidence, e)...)
	case j.Unseen(until) != "":
		return v.unknown("no event: "+j.Unseen(until), put)
	case ok && j.MayBeInTime(e, until) != "":
		return v.unknown(fmt.Sprintf("%s by %s after %s: %s", e.KubernetesReason(), e.Owner, timer.After(e.At), j.MayBeInTime(e, until)), append(timer.Evidence, e)...)
	case ok:
		if why := loss.HandlerWaited(j.Story, timer.From, e.At, until); why != "" {
			return v.noise(fmt.Sprintf("%s by %s after %s: %s", e.KubernetesReason(), e.Owner, timer.After(e.At), why), append(timer.Evidence, e)...)
		}
		return v.fail(fmt.Sprintf("%s by %s, but only after %s", e.KubernetesReason(), e.Owner, timer.After(e.At)), append(timer.Evidence, e)...)
	}
	if foreign, ok := j.First(func(e history.Event) bool { return story.ReportsOn(j.Story, e, put) && e.At <= until }); ok {
		return v.unknown(fmt.Sprintf("only %s by %s, and nothing shows that this is the handler: name its reporter under marks in its description", foreign.KubernetesReason(), foreign.Owner), put, foreign)
	}
	return v.fail("no event on "+node+" except those of Kubernetes itself", put)
}

func podReported(j judge, v Verdict, c Reported) Verdict {
	v = v.requires(fmt.Sprintf("an event of the handler on a pod that names %s, within %s", c.Text, c.Within.D()), c.Notice)
	put, ok := j.First(func(e history.Event) bool { return e.Kind == history.NoticePut && e.Step() == c.Notice })
	if !ok {
		return v.unknown(fmt.Sprintf("notice %q was never sent", c.Notice))
	}
	limit := put.At + c.Within.D()
	report, ok := j.First(func(e history.Event) bool {
		return e.About("Pod") && e.At >= put.At && e.At <= limit &&
			!story.KubernetesComponent(e.Owner) && strings.Contains(e.Note, c.Text)
	})
	switch {
	case ok:
		v.Numbers = map[string]float64{"reported_seconds": (report.At - put.At).Seconds()}
		return v.pass(fmt.Sprintf("%s by %s after %s: %s", report.KubernetesReason(), report.Owner, history.Seconds(report.At-put.At), report.Note), put, report)
	case j.Unseen(limit) != "":
		return v.unknown("no event: "+j.Unseen(limit), put)
	}
	return v.fail("no event of the handler on a pod names it", put)
}
