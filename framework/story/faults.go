package story

import (
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
)

// EndOf is when a fault or a disturbance of the handler ended that took effect. If that is
// unknown, why is the reason.
func (st *Story) EndOf(name string) (ended history.Event, why string) {
	of := func(kind history.Kind) (history.Event, bool) {
		return st.First(func(e history.Event) bool { return e.Kind == kind && e.Step() == name })
	}
	if disturbed, ok := of(history.HandlerDisturbed); ok {
		ended, ok := of(history.HandlerLeftAlone)
		switch {
		case !ok:
			return ended, fmt.Sprintf("disturbance %q did not end", name)
		case disturbed.Disturbance() == history.CutOffHandler && ended.Numbers[history.Dropped] == 0:
			return ended, fmt.Sprintf("disturbance %q dropped no packet", name)
		}
		return ended, ""
	}
	if _, ok := of(history.FaultHit); !ok {
		return ended, fmt.Sprintf("fault %q hit no call", name)
	}
	ended, ok := of(history.FaultEnded)
	if !ok {
		return ended, fmt.Sprintf("fault %q did not end", name)
	}
	return ended, ""
}

// HitCalls are the calls on record that the fault hit, in order of time. If they show nothing,
// why is the reason. A fault that affects a number of calls may not have ended: a handler
// that gives up too early makes too few.
func HitCalls(st *Story, fault string) (calls []history.Event, why string) {
	if why := st.APIUnrecorded(); why != "" {
		return nil, why
	}
	calls = st.APICalls(func(e history.Event) bool { return e.Fault == fault })
	if len(calls) == 0 { // one that is never answered may never end
		calls = st.All(func(e history.Event) bool { return e.Kind == history.FaultHit && e.Step() == fault && e.Resource != "" })
	}
	if len(calls) == 0 {
		return nil, fmt.Sprintf("fault %q hit no call", fault)
	}
	return calls, ""
}

// Disturbed are the pods of the handler that a disturbance was done to.
func Disturbed(st *Story, disturbance string) (pods []Pod, why string) {
	done := st.All(func(e history.Event) bool { return e.Kind == history.HandlerDisturbed && e.Step() == disturbance })
	if len(done) == 0 {
		return nil, fmt.Sprintf("disturbance %q never began", disturbance)
	}
	for _, e := range done {
		i := slices.IndexFunc(st.Pods, func(p Pod) bool { return p.UID() == e.UID })
		if i < 0 {
			return nil, e.Pod + " was not seen"
		}
		pods = append(pods, st.Pods[i])
	}
	return pods, ""
}

// WithoutEffect shows why a disturbance of the handler's pods did nothing to it, or
// "".
func WithoutEffect(st *Story, done []history.Event) string {
	if done[0].Disturbance() == history.CutOffHandler {
		left, ok := st.First(func(e history.Event) bool { return e.Kind == history.HandlerLeftAlone && e.Step() == done[0].Step() })
		if !ok || left.Numbers[history.Dropped] == 0 {
			return "not a packet of the handler's was dropped"
		}
		return ""
	}
	for _, was := range done {
		_, ok := st.First(func(e history.Event) bool {
			return e.At >= was.At && e.UID == was.UID && slices.Contains([]history.Kind{history.PodRestarted, history.PodExited, history.PodTerminating, history.PodDeleted}, e.Kind)
		})
		if !ok {
			return was.Pod + " went on as before"
		}
	}
	return ""
}
