package story

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// clockSkew is how far a request's time in the audit log may lie outside of the time that
// the recording proxy saw it under way.
const clockSkew = time.Second

// APICalls are the calls to the API server, in the drill, that ok accepts: those that are on
// record by themselves, and those that were counted.
func (st *Story) APICalls(ok func(history.Event) bool) []history.Event {
	return st.All(func(e history.Event) bool {
		return (e.Kind == history.APICall || e.Kind == history.APIFolded) && ok(e)
	})
}

// APIUnrecorded is the reason why the handler's calls to the API server are not known, or
// not all of them. It is empty if they are: what is not on record was not called then.
func (st *Story) APIUnrecorded() string {
	var calls []history.Event
	seen, until := false, time.Duration(math.MaxInt64)
	for _, e := range st.History.Events {
		switch e.Kind {
		case history.APICall, history.APIFolded:
			seen, calls = true, append(calls, e)
		case history.APIWatching:
			seen = true
		case history.APIRecorded:
			until = e.At
		}
	}
	if !seen {
		return "no call of the handler's to the API server went through the recording proxy"
	}
	for _, e := range st.History.Events {
		// The audit log is read after the record has ended, and a handler may still write then.
		if e.Said == nil || *e.Said < st.Begun || *e.Said > until || e.Kind != history.HandlerTook && !e.WroteNode() {
			continue
		}
		if !slices.ContainsFunc(calls, func(c history.Event) bool { return wentThrough(e, c) }) {
			return fmt.Sprintf("the audit log has a request at +%s (%s %s%s) that did not go through the recording proxy", history.Seconds(*e.Said), e.Action, e.Node, e.Pod)
		}
	}
	return ""
}

// wentThrough reports whether the call may be the request that the audit log has.
func wentThrough(request, call history.Event) bool {
	began := Arrived(call)
	if call.Kind == history.APIFolded {
		began = call.At - call.Numbers.Duration(history.Within)
	}
	if *request.Said < began-clockSkew || *request.Said > call.At+clockSkew {
		return false
	}
	verb := request.Action
	if verb == "evict" { // of an audit log
		verb = "create"
	}
	if namespace, name, ofPod := strings.Cut(request.Pod, "/"); ofPod && name == "" {
		return call.Action == verb && call.Object == namespace
	}
	return call.Action == verb && call.Node == request.Node && call.Pod == request.Pod
}

// SetsMark reports whether the call put a mark of the handler's description on a node.
func (st *Story) SetsMark(call history.Event) bool {
	return call.Resource == history.NodesResource && Done(call) && slices.ContainsFunc(call.Marks(), st.isMark)
}

func (st *Story) isMark(name string) bool {
	handler := st.History.Meta.Handler
	return name != "" && (name == history.MarkUnschedulable && handler.Unschedulable || name == handler.Taint)
}

// Removes reports whether the call requests a pod to leave, by an eviction or a deletion.
func Removes(call history.Event) bool {
	return call.Pod != "" && (call.Resource == history.EvictionsResource && call.Action == "create" || call.Resource == history.PodsResource && call.Action == "delete")
}

// Done reports whether the call took effect, as far as the API server showed it.
func Done(call history.Event) bool { return call.Status >= 200 && call.Status < 300 }

// Purpose is what a call is for: calls for the same purpose can replace each other.
func Purpose(e history.Event) string {
	switch e.Action {
	case "get", "list":
		return "read " + e.Resource
	case "watch":
		return "watch " + e.Resource
	}
	return "write " + strings.Join([]string{e.Resource, e.Node, e.Pod, e.Object}, " ")
}

// Needless reports whether nothing was left to do with the call's object at that time: the
// pod had ended, or the instance of the node, or of the pod's node, was gone.
func Needless(st *Story, e history.Event, at time.Duration) bool {
	if e.Node != "" {
		return st.Gone(e.Node) <= at
	}
	if e.Pod == "" {
		return false
	}
	there := slices.ContainsFunc(st.Pods, func(p Pod) bool {
		if p.Name() != e.Pod || p.Since() > e.At {
			return false
		}
		end, ended := p.FirstOf(history.PodTerminating, history.PodDeleted)
		return (!ended || end.At > at) && st.Gone(p.Node()) > at
	})
	return !there
}

// Busiest is the most calls within a time of that length, and their events. The calls are in
// the order of at. What was counted in a second that only partly belongs to the time is left
// out.
func Busiest(calls []history.Event, over time.Duration, at func(history.Event) time.Duration) (most float64, events []history.Event) {
	first := 0
	for last, e := range calls {
		begin := at(e) - over
		for at(calls[first]) <= begin {
			first++
		}
		n := 0.0
		for _, c := range calls[first : last+1] {
			if c.Kind != history.APIFolded || c.At-c.Numbers.Duration(history.Within) >= begin {
				n += Weight(c)
			}
		}
		if n > most {
			most, events = n, calls[first:last+1]
		}
	}
	return most, events
}

// Recorded is when the event was recorded: with a call, when it was answered.
func Recorded(e history.Event) time.Duration { return e.At }

// Weight is how many calls the event stands for.
func Weight(e history.Event) float64 {
	if e.Kind == history.APIFolded {
		return e.Numbers[history.Calls]
	}
	return 1
}

// MostCommon is the verb and resource of most of the calls, as one of them.
func MostCommon(calls []history.Event) (one history.Event, n float64) {
	count := map[string]float64{}
	for _, e := range calls {
		count[e.Action+e.Resource] += Weight(e)
		if count[e.Action+e.Resource] > n {
			one, n = e, count[e.Action+e.Resource]
		}
	}
	return one, n
}
