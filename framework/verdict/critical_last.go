package verdict

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// CriticalLast has the parameters of checkCriticalLast.
type CriticalLast struct {
	NodeNotice `yaml:",inline"`
}

var checkCriticalLast = by(Kind{
	ID: "criticalLast", Title: "critical pods of %s last",
	Requires: "No pod of a system priority class begins to terminate, or at a shutdown of the node gets SIGTERM, before every other evictable pod of the node has stopped.",
	Fix:      "evict pods of the system priority classes only after the others have stopped",
	Look:     Look{Lane: LanePods, Text: "the lane Pods: which critical pod began to terminate while others still ran?"},
}, criticalLast)

func criticalLast(j judge, v Verdict, c CriticalLast) Verdict {
	v = v.requires("no critical pod terminating before every other has stopped", c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	var critical, others []story.Pod
	for _, p := range j.ToLeave(node, put.At) {
		if p.Critical() {
			critical = append(critical, p)
		} else {
			others = append(others, p)
		}
	}
	if len(critical) == 0 || len(others) == 0 {
		return v.unknown(fmt.Sprintf("%d critical pods and %d others were on %s", len(critical), len(others), node), put)
	}
	terminating := history.Event{}
	for _, p := range critical {
		if e, ok := p.AskedToEnd(); ok && (terminating.Kind == "" || e.At < terminating.At) {
			terminating = e
		}
	}
	if terminating.Kind == "" {
		return v.unknown("no critical pod began to terminate", put)
	}
	by := terminating.At
	if terminating.Kind != history.PodTerminating { // logged at once, while the API server learns of an exit later: the kubelet looks each second
		by += 2 * time.Second
	}
	for _, p := range others {
		if stopped, ok := p.Stopped(); !ok || stopped.At > by {
			return v.fail(fmt.Sprintf("%s began to terminate at +%s, when %s had not stopped", terminating.Pod, history.Seconds(terminating.At), p.Name()), known(terminating, stopped)...)
		}
	}
	return v.pass(fmt.Sprintf("%d began to terminate after %d others had stopped", len(critical), len(others)), terminating)
}
