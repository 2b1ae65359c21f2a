package verdict

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// BlockedReported has the parameters of checkBlockedReported.
type BlockedReported struct {
	NodePods `yaml:",inline"`
}

var checkBlockedReported = by(Kind{
	ID: "blockedReported", Title: "blocked drain of %s reported",
	Requires: "A Kubernetes event on the node, or on a pod that a budget keeps there, names the pod or the budget before the deadline, and reports that the eviction was refused. What the handler does at the deadline is reported and not judged.",
	Fix:      "create an event on the node or the pod when a budget refuses an eviction; name the pod or the budget in it, and what the API server answered",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler: which events the handler wrote, and whether one shows which pod or budget blocks the drain"},
}, blockedReported)

func blockedReported(j judge, v Verdict, c BlockedReported) Verdict {
	v = v.requires(fmt.Sprintf("an event on the node, or on a pod kept there, that names pod or budget and reports that the eviction was refused, before the deadline of notice %q", c.Notice), c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := j.Over(put)
	kept := j.toLeave(node, put, c.Pods)
	reports := story.BlockReports(j.Story, put, until, kept)
	left, atDeadline := atDeadline(kept, until)
	v.Numbers = map[string]float64{"pods": float64(len(kept)), "left": float64(left)}
	switch {
	case len(kept) == 0:
		return v.unknown(fmt.Sprintf("no %s pod was on %s", c.Pods, node), put)
	case j.Unseen(until) != "" && (len(reports) == 0 || left != 0): // a pod that is leaving does not come back
		return v.unknown("the deadline was not seen: "+j.Unseen(until), put)
	case len(reports) == 0:
		return v.fail("no event reports it; "+atDeadline, put)
	}
	report := reports[0]
	v.Numbers["reported_seconds"] = (report.At - put.At).Seconds()
	return v.pass(fmt.Sprintf("%s by %s after %s; %s", report.KubernetesReason(), report.Owner, history.Seconds(report.At-put.At), atDeadline), put, report)
}

// atDeadline describes what the handler had done with the pods until then.
func atDeadline(kept []story.Pod, until time.Duration) (left int, got string) {
	first := history.Event{}
	for _, p := range kept {
		terminating, ok := p.Terminating()
		if !ok || terminating.At > until {
			left++
			continue
		}
		if first.Kind == "" || terminating.At < first.At {
			first = terminating
		}
	}
	got = fmt.Sprintf("at the deadline %d of %s still there", left, history.Count(len(kept), "pod"))
	if first.Kind != "" {
		got += fmt.Sprintf(", the first of the others began to terminate %s before it", history.Seconds(until-first.At))
	}
	return left, got
}
