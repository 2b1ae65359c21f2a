package verdict

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// AllTerminating has the parameters of checkAllTerminating.
type AllTerminating struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

// Validate checks the parameters.
func (c AllTerminating) Validate(in *scenarios.Scope) {
	in.NoticeFor(c.Node, c.Notice)
}

// DecidedBy is how long it needs the recording.
func (c AllTerminating) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.Deadlines[c.Notice]).On(c.Node, t)
}

var checkAllTerminating = check{
	Kind: Kind{
		ID: "allTerminating", Title: "every pod of %s asked to terminate",
		Requires: "Every evictable pod that a drain has to move begins to terminate before the deadline, or has finished by itself, even if no pod can end on the node.",
		Fix:      "go on evicting when the node is NotReady, and do not wait until a pod is gone: its replacement can start elsewhere once it is evicted",
		Look:     Look{Lane: LanePods, Text: "the lanes Node and Pods: which pod was not evicted, and had the node stopped being Ready by then?"},
	},
	judge: by(allTerminating),
}

func allTerminating(j judge, v Verdict, c AllTerminating) Verdict {
	v = v.wants(fmt.Sprintf("every evictable pod terminating before the deadline of notice %q", c.Notice), c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := min(*put.Until, j.Gone(node))
	pods := j.ToDrain(node, put)
	last := put
	var left []string
	doubt := ""
	for _, p := range pods {
		e, ok := p.FirstOf(history.PodTerminating, history.PodDeleted)
		switch {
		case p.FinishedBy(until):
		case ok && e.At <= until:
			if e.At > last.At {
				last = e
			}
		default:
			left = append(left, p.Name())
			if ok {
				doubt = j.mayBeInTime(e, until)
			}
		}
	}
	v.Numbers = map[string]float64{"pods": float64(len(pods)), "left": float64(len(left))}
	switch {
	case len(pods) == 0:
		return v.unknown("no evictable pod was on "+node, put)
	case len(left) == 0:
		v.Numbers["asked_seconds"] = (last.At - put.At).Seconds()
		return v.pass(fmt.Sprintf("all %d began to terminate after %s", len(pods), history.Seconds(last.At-put.At)), put, last)
	case j.Unseen(until) != "":
		return v.unknown(fmt.Sprintf("%d of %d had not begun to terminate: %s", len(left), len(pods), j.Unseen(until)), put)
	case len(left) == 1 && doubt != "":
		return v.unknown(left[0]+" began to terminate late: "+doubt, put)
	}
	return v.fail(fmt.Sprintf("%d of %d never began to terminate: %s", len(left), len(pods), strings.Join(left, ", ")), put)
}
