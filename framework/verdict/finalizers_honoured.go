package verdict

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// FinalizersHonoured has the parameters of checkFinalizersHonoured.
type FinalizersHonoured struct {
	NodePods `yaml:",inline"`
}

// DecidedBy is how long it needs the recording.
func (c FinalizersHonoured) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Absent(t.Stepped+scenarios.RepeatTime).On(c.Node, t)
}

var checkFinalizersHonoured = by(Kind{
	ID: "finalizersHonoured", Title: "finalizers of %s honoured",
	Requires: "The pods are evicted, and stay in the API: nobody but the one whose finalizer it is may remove it.",
	Fix:      "evict a pod once, and leave it to whoever set its finalizer: it holds neither the node nor other pods",
	Look:     Look{Lane: LanePods, Text: "the lane Pods: when did the pod disappear from the API? Then handler.log"},
}, finalizersHonoured)

func finalizersHonoured(j judge, v Verdict, c FinalizersHonoured) Verdict {
	v = v.requires("evicted, and still in the API", c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	until := j.There(node)
	var held []history.Event
	for _, p := range j.toLeave(node, put, c.Pods) {
		if gone, ok := p.Deleted(); ok && gone.At < until {
			return v.fail(p.Name()+" is gone from the API, although its finalizer was not its handler's to remove", put, gone)
		}
		terminating, ok := p.Terminating()
		switch {
		case ok:
			held = append(held, terminating)
		case j.Unseen(j.Over(put)) != "":
			return v.unknown(p.Name()+" had not begun to terminate: "+j.Unseen(j.Over(put)), put)
		default:
			return v.fail(p.Name()+" was never evicted", put)
		}
	}
	switch {
	case len(held) == 0:
		return v.unknown(fmt.Sprintf("no %s pod was on %s", c.Pods, node), put)
	case j.Unseen(until) != "":
		return v.unknown("held: "+j.Unseen(until), put)
	}
	return v.pass(fmt.Sprintf("%d evicted and still there", len(held)), capped(held)...)
}
