package story

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Blame reports whether something is the handler's doing.
type Blame int

// The answers. What is known of the handler's requests is what the API server's audit
// log has; where it was not read, much is unclear.
const (
	Blameless Blame = iota // harmless, or somebody else's doing
	Unclear                // the history does not show who did it
	Blamed                 // the handler's
)

// answered is how long before its effect is on record a request may have reached the
// API server: as long as the server works on one, and the watch's delay.
const answered = 10*time.Second + SeenLate

// audit is what the history has of the API server's audit log.
type audit struct {
	noHandler bool // nothing is a handler's doing then
	// whole reports whether every change is on record, of both handlers if there are two;
	// wrote, whether those of nodes are.
	whole, wrote bool
	// rights are the verbs by which the handler changed pods, if they are on record.
	rights map[string]bool
	nodes  map[string][]time.Duration // when the handler asked to change each
	pods   map[string][]time.Duration // when it asked to evict or delete each, or NAMESPACE/
}

func readAudit(h history.History) audit {
	first, second := false, h.Meta.Other == nil
	a := audit{noHandler: h.Meta.Handler.Name == "none", nodes: map[string][]time.Duration{}, pods: map[string][]time.Duration{}}
	for _, e := range h.Events {
		switch e.Kind {
		case history.AuditRead:
			first, second = first || e.By == "", second || e.By == history.OtherHandler
		case history.RBACUsed:
			if a.rights == nil {
				a.rights = map[string]bool{}
			}
			if e.RBACObject() == "/pods" {
				a.rights[e.Action] = true
			}
		case history.HandlerWrote:
			a.wrote = true
			if e.Said != nil {
				a.nodes[e.Node] = append(a.nodes[e.Node], *e.Said)
			}
		case history.HandlerTook:
			if e.Said != nil {
				a.pods[e.Pod] = append(a.pods[e.Pod], *e.Said)
			}
		}
	}
	a.whole = first && second
	// They were always recorded together.
	a.wrote = a.wrote || a.whole || a.rights != nil
	return a
}

// changed reports whether the handler made a change of the node that was seen then.
func (a audit) changed(node string, at time.Duration) Blame {
	switch {
	case a.noHandler:
		return Blameless
	case !a.wrote:
		return Unclear
	case within(a.nodes[node], at-2*SeenLate, at):
		return Blamed
	case within(a.nodes[node], at-answered, at):
		return Unclear // it changed something, perhaps this
	}
	return Blameless
}

// Changed reports whether the handler made a change of a node that the watch saw.
func (st *Story) Changed(e history.Event) Blame { return st.audit.changed(e.Node, e.At) }

// Audited reports whether every change that the handler requested is on record.
func (st *Story) Audited() bool { return st.audit.whole }

// deleted reports whether the handler asked for the end of the pod that was seen then. A
// pod of the same name may have been there before it.
func (a audit) deleted(p Pod, at time.Duration) Blame {
	namespace, _, _ := strings.Cut(p.Name(), "/")
	from := max(p.Since(), at-answered)
	switch {
	case a.noHandler:
		return Blameless
	case within(a.pods[p.Name()], from, at) || within(a.pods[namespace+"/"], from, at):
		return Blamed
	case a.whole, a.rights != nil && !a.rights["delete"] && !a.rights["deletecollection"]:
		return Blameless
	}
	return Unclear
}

// within reports whether one of the times lies between these.
func within(times []time.Duration, from, to time.Duration) bool {
	for _, t := range times {
		if t >= from && t <= to {
			return true
		}
	}
	return false
}

// Touch reports whether by this event the handler interferes with a node or the pods on
// it. Nodes may have taints of their own and pods may have been evicted when recording
// starts; the handler's taint is never there before a drill, nor is a cordon, unless the
// drill prepared one. Any other
// taint may be anybody's: a network plugin has some too.
func (st *Story) Touch(e history.Event) Blame {
	switch {
	case e.Kind == history.NodeCordoned && st.PreparedCordon(e):
		return Blameless
	case e.Kind == history.NodeDeleted && st.ByOperator(e):
		return Blameless
	case e.Kind == history.NodeCordoned, e.Kind == history.NodeDeleted:
		return Blamed
	case e.Kind == history.NodeTainted && e.Setting().Key == st.History.Meta.Handler.Taint:
		return Blamed
	case e.Kind == history.NodeTainted:
		if e.At < st.Begun || kubernetesTaint(e.Setting().Key) {
			return Blameless
		}
		return st.audit.changed(e.Node, e.At)
	}
	return st.Takes(e)
}

// Takes reports whether by this event the handler removes a pod: by an eviction, or by
// a deletion without one. Nobody else deletes the workload's pods; who deleted another
// is read from the audit log. A deletion that Kubernetes gives another reason for, by
// the DisruptionTarget condition, is not the handler's.
func (st *Story) Takes(e history.Event) Blame {
	if st.Evicts(e) {
		return Blamed
	}
	p, ok := st.undisrupted[e.UID]
	switch {
	case !ok || e.At < st.Begun || !p.EndsBy(e):
		return Blameless
	case p.OfHandler(st.History.Meta.Handler):
		return Blameless // its own pod, which drills disturb
	case p.Evictable() && !p.FinishedBy(e.At) && st.ofWorkload(p):
		return Blamed
	}
	return st.audit.deleted(p, e.At)
}

// Evicts reports whether the event is an eviction by the Eviction API during the
// drill.
func (st *Story) Evicts(e history.Event) bool {
	return e.Kind == history.PodEvicted && e.KubernetesReason() == "EvictionByEvictionAPI" && e.At >= st.Begun
}

// Touches are the interferences with a node while its instance is there: the handler's,
// and those that may be its own.
func (st *Story) Touches(node string) (blamed, unclear []history.Event) {
	gone := st.Gone(node)
	on := func(blame Blame) func(history.Event) bool {
		return func(e history.Event) bool { return e.Node == node && e.At < gone && st.Touch(e) == blame }
	}
	return st.All(on(Blamed)), st.All(on(Unclear))
}

// NoticedByTwo is Noticed for what requires that it is known which of two handlers did what.
func NoticedByTwo(st *Story, name, notice string) (node string, put history.Event, why string) {
	node, put, why = st.Noticed(name, notice)
	switch {
	case why != "":
	case st.History.Meta.Other == nil:
		why = "the history has no second handler"
	case !st.Audited():
		why = "the API server's audit log was not read, so who did what is unknown"
	}
	return node, put, why
}

// NameOf is the name of the handler that did something.
func NameOf(st *Story, by string) string {
	if by == history.OtherHandler && st.History.Meta.Other != nil {
		return st.History.Meta.Other.Name
	}
	return st.History.Meta.Handler.Name
}

// BySaid orders events by the times that the audit log gives their requests.
func BySaid(a, b history.Event) int { return cmp.Compare(*a.Said, *b.Said) }

// ActsOn are the changes of a node that each handler requested while its instance was there, and
// the evictions and deletions of its pods, by history.Event.By and in the order of the requests.
func ActsOn(st *Story, node string) map[string][]history.Event {
	pods := map[string]bool{}
	for _, p := range st.Pods {
		if _, there := p.First(func(e history.Event) bool { return e.Node == node }); there {
			pods[p.Name()] = true
		}
	}
	acts, gone := map[string][]history.Event{}, st.Stays(node)
	for _, e := range st.History.Events {
		about := e.Kind == history.HandlerWrote && e.Node == node || e.Kind == history.HandlerTook && pods[e.Pod]
		if about && e.Said != nil && *e.Said >= st.Begun && *e.Said < gone {
			acts[e.By] = append(acts[e.By], e)
		}
	}
	for _, of := range acts {
		slices.SortFunc(of, BySaid)
	}
	return acts
}

// Stolen are the deletions of the notice's messages by a handler that did nothing with the node,
// where the other one received none of them.
func Stolen(st *Story, put history.Event, acts map[string][]history.Event) []history.Event {
	ids := st.MessagesOf(put)
	received := map[string]bool{}
	for _, e := range st.AllOf(history.SQSReceived) {
		if slices.Contains(ids, e.Message) {
			received[e.By] = true
		}
	}
	other := map[string]string{"": history.OtherHandler, history.OtherHandler: ""}
	return st.All(func(e history.Event) bool {
		return e.Kind == history.SQSDeleted && slices.Contains(ids, e.Message) && len(acts[e.By]) == 0 && !received[other[e.By]]
	})
}

// TakenOff are the marks of either handler that came off the node while its instance was there.
func TakenOff(st *Story, node string, put history.Event) []history.Event {
	until := st.There(node)
	taints := []string{st.History.Meta.Handler.Taint, st.History.Meta.Other.Taint}
	return st.All(func(e history.Event) bool {
		if e.Node != node || e.At < put.At || e.At >= until || st.ByOperator(e) {
			return false
		}
		return e.Kind == history.NodeUncordoned || e.Kind == history.NodeUntainted && e.Setting().Key != "" && slices.Contains(taints, e.Setting().Key)
	})
}

// CountActs counts the acts of both handlers, in words.
func CountActs(st *Story, acts map[string][]history.Event) string {
	var out []string
	for _, by := range []string{"", history.OtherHandler} {
		evictions := 0
		for _, e := range acts[by] {
			if e.Kind == history.HandlerTook {
				evictions++
			}
		}
		out = append(out, fmt.Sprintf("%s: %s of the node, %s", NameOf(st, by), history.Count(len(acts[by])-evictions, "change"), history.Count(evictions, "eviction")))
	}
	return strings.Join(out, "; ")
}
