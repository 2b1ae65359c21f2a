package loss

import (
	"math"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// cutOffFor is for how long a pod that is cut off answers nothing at least. A pod of a workload
// answers some thirty requests in that time.
const cutOffFor = time.Second

// cuts are the times in which the add-on vpc-cni may drop the traffic of the target's pods.
type cuts []period

// period is a time of the recording.
type period struct{ from, to time.Duration }

// newCuts lists them: from the beginning of an upgrade until its values are set by hand again, on
// all nodes. An upgrade that is refused changes nothing. Only pods with security groups of their
// own are affected.
func newCuts(st *story.Story, t Target) (out cuts) {
	if !st.Scenario.Workload.SecurityGroups || t.Service != history.Application {
		return nil
	}
	for _, e := range st.Events {
		if e.AddOn() != scenarios.VPCCNIAddOn {
			continue
		}
		switch last := len(out) - 1; e.Kind {
		case history.AddOnUpgrading:
			out = append(out, period{e.At, math.MaxInt64})
		case history.AddOnSet:
			if last >= 0 {
				out[last].to = min(out[last].to, e.At)
			}
		case history.AddOnRefused:
			if last >= 0 {
				out = out[:last]
			}
		}
	}
	return out
}

// off reports whether the add-on had cut a pod off when a request was sent there, and how long
// after the pod's last answer that was.
func (c cuts) off(b *backend, sent time.Duration) (lag time.Duration, is bool) {
	if !slices.ContainsFunc(c, func(p period) bool { return p.from <= sent && sent <= p.to }) {
		return 0, false
	}
	next, _ := slices.BinarySearch(b.answered, sent)
	if next == 0 {
		return 0, false
	}
	last := b.answered[next-1]
	if next < len(b.answered) && b.answered[next]-last < cutOffFor {
		return 0, false
	}
	return sent - last, true
}
