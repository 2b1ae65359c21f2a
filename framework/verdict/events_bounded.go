package verdict

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// EventsBounded has the parameters of checkEventsBounded.
type EventsBounded struct {
	NodePods `yaml:",inline"`
	// Max is how many events there may be for each pod, repetitions included.
	Max int `yaml:"max"`
}

// Validate checks the parameters.
func (c EventsBounded) Validate(in *scenarios.Scope) {
	c.NodePods.Validate(in)
	if c.Max < 1 {
		in.Problem("max", "%d is less than 1: a blocked eviction must be reported", c.Max)
	}
}

// DecidedBy is how long it needs the recording.
func (c EventsBounded) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Sent[c.Notice]+scenarios.BlockedTime).On(c.Node, t)
}

var checkEventsBounded = by(Kind{
	ID: "eventsBounded", Title: "events about blocked %s bounded",
	Requires: "A blocked eviction is reported without an event for each attempt: no more than this many for each blocked pod, repetitions included.",
	Fix:      "report a pod's blocked eviction once, and again only if the reason changes or minutes have passed: every event is a write to etcd, and many of them hide the others",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler: how many events were there of one blocked pod, and how far apart?"},
}, eventsBounded)

func eventsBounded(j judge, v Verdict, c EventsBounded) Verdict {
	v = v.requires(fmt.Sprintf("at most %s for each blocked pod within %s of notice %q", history.Count(c.Max, "event"), scenarios.BlockedTime, c.Notice), c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	until := min(put.At+scenarios.BlockedTime, j.Gone(node))
	kept := slices.DeleteFunc(j.toLeave(node, put, c.Pods), func(p story.Pod) bool {
		terminating, ok := p.Terminating()
		return ok && terminating.At <= until
	})
	events := story.BlockReports(j.Story, put, until, kept)
	v.Numbers = map[string]float64{"blocked": float64(len(kept)), "events": float64(len(events))}
	switch {
	case len(kept) == 0:
		return v.unknown(fmt.Sprintf("no %s pod was blocked on %s", c.Pods, node), put)
	case len(events) > c.Max*len(kept):
		return v.fail(fmt.Sprintf("%s about %s", history.Count(len(events), "event"), history.Count(len(kept), "blocked pod")), capped(events)...)
	case j.Unseen(until) != "":
		return v.unknown("bounded: "+j.Unseen(until), put)
	}
	return v.pass(fmt.Sprintf("%s about %s", history.Count(len(events), "event"), history.Count(len(kept), "blocked pod")), capped(append([]history.Event{put}, events...))...)
}
