package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// NotScheduled has the parameters of checkNotScheduled.
type NotScheduled struct {
	NodeNotice `yaml:",inline"`
}

// DecidedBy is how long it needs the recording.
func (c NotScheduled) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Stepped+scenarios.RepeatTime).On(c.Node, t)
}

var checkNotScheduled = by(Kind{
	ID: "notScheduled", Title: "no pod comes to %s",
	Requires: "No evictable pod is bound to the node later than a second after the handler marked it, which is the time that the scheduler may need to see the mark. It is unknown unless pods are bound elsewhere meanwhile.",
	Fix:      "cordon, or taint with NoSchedule, before the first eviction: otherwise the scheduler puts the replacements back on the node",
	Look:     Look{Lane: LanePods, Text: "the lanes Node and Pods: which pod was scheduled to the node, and how long after its mark?"},
}, notScheduled)

func notScheduled(j judge, v Verdict, c NotScheduled) Verdict {
	v = v.requires(fmt.Sprintf("no pod bound to the node once it is marked for notice %q", c.Notice), c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	mark, ok := j.MarkedAfter(node, put)
	if !ok {
		return v.unknown(node+" was not marked", put)
	}
	if _, why := j.Earliest(mark); why != "" {
		return v.unknown(node+" may have been marked long before it was seen: "+why, mark)
	}
	until := j.Stays(node)
	var here []history.Event
	elsewhere := 0
	for _, p := range j.Pods {
		bound, ok := p.FirstOf(history.PodScheduled)
		if !ok || bound.At < mark.At || bound.At >= until || !p.Evictable() {
			continue
		}
		if bound.Node != node {
			elsewhere++
		} else if at, why := j.Earliest(bound); why != "" && at < mark.At+story.InFlight && bound.At >= mark.At {
			return v.unknown(fmt.Sprintf("%s may have come before %s was marked: %s", bound.Pod, node, why), mark, bound)
		} else if bound.At >= mark.At+story.InFlight {
			here = append(here, bound)
		}
	}
	v.Numbers = map[string]float64{"here": float64(len(here)), "elsewhere": float64(elsewhere)}
	switch {
	case len(here) > 0:
		return v.fail(fmt.Sprintf("%s came to %s, the first %s %s after the mark", history.Count(len(here), "pod"), node, here[0].Pod,
			history.Seconds(here[0].At-mark.At)), append([]history.Event{mark}, capped(here)...)...)
	case j.Unseen(until) != "":
		return v.unknown("none came: "+j.Unseen(until), mark)
	case elsewhere == 0:
		return v.unknown("no pod was bound anywhere after the mark, so that none came proves nothing", mark)
	}
	return v.pass(fmt.Sprintf("none; %s bound elsewhere", history.Count(elsewhere, "pod")), mark)
}
