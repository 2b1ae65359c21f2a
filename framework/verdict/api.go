package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// hitCalls are the calls on record that the fault hit, in order of time. If they show nothing,
// why is the reason. A fault that affects a number of calls may not have ended: a handler
// that gives up too early makes too few.
func (j judge) hitCalls(fault string) (calls []history.Event, why string) {
	if why := j.APIUnrecorded(); why != "" {
		return nil, why
	}
	calls = j.APICalls(func(e history.Event) bool { return e.Fault == fault })
	if len(calls) == 0 { // one that is never answered may never end
		calls = j.All(func(e history.Event) bool { return e.Kind == history.FaultHit && e.Step() == fault && e.Resource != "" })
	}
	if len(calls) == 0 {
		return nil, fmt.Sprintf("fault %q hit no call", fault)
	}
	return calls, ""
}

// purpose is what a call is for: calls for the same purpose can replace each other.
func purpose(e history.Event) string {
	switch e.Action {
	case "get", "list":
		return "read " + e.Resource
	case "watch":
		return "watch " + e.Resource
	}
	return "write " + strings.Join([]string{e.Resource, e.Node, e.Pod, e.Object}, " ")
}

func byTime(calls map[string]history.Event) []history.Event {
	var out []history.Event
	for _, e := range calls {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b history.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// needless reports whether nothing was left to do with the call's object at that time: the
// pod had ended, or the instance of the node, or of the pod's node, was gone.
func (j judge) needless(e history.Event, at time.Duration) bool {
	if e.Node != "" {
		return j.Gone(e.Node) <= at
	}
	if e.Pod == "" {
		return false
	}
	there := slices.ContainsFunc(j.Pods, func(p story.Pod) bool {
		if p.Name() != e.Pod || p.Since() > e.At {
			return false
		}
		end, ended := p.FirstOf(history.PodTerminating, history.PodDeleted)
		return (!ended || end.At > at) && j.Gone(p.Node()) > at
	})
	return !there
}
