package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Marked has the parameters of checkMarked.
type Marked struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	// After is a fault or a disturbance. If it ends later than the notice is sent, within
	// counts from its end.
	After  string          `yaml:"after,omitempty"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Marked) Validate(in *scenarios.Scope) {
	in.NoticeFor(c.Node, c.Notice)
	in.After(c.After)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Marked) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.SentOrEnded(c.Notice, c.After)+c.Within.D()).On(c.Node, t)
}

var checkMarked = check{
	Kind: Kind{
		ID: "marked", Title: "marked %s",
		Requires: "A node that a notice names carries one of the marks that the handler's description names, within a time of the notice, and keeps it. A taint with the effect PreferNoSchedule is no mark. If the message came late to a handler that asked for it, the time counts from then.",
		Fix:      "cordon or taint the node as soon as the notice is read, before the first eviction; if the handler does, name its mark under marks in its description",
		Look:     Look{Lane: LaneNode, Text: "the lanes Handler and Node: was the message received, and what followed? Then handler.log"},
	},
	judge: by(marked),
}

func marked(j judge, v Verdict, c Marked) Verdict {
	handler := j.History.Meta.Handler
	v = v.wants(fmt.Sprintf("%s within %s of notice %q", claimedMarks(handler), c.Within.D(), c.Notice)+wantAfter(c.After), c.Node)
	if !handler.Unschedulable && handler.Taint == "" {
		return v.unknown(fmt.Sprintf("the description of handler %q claims no mark", handler.Name))
	}
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	limit, why := j.limitOf(put, c.After)
	if why != "" {
		return v.unknown(why, put)
	}
	registered, gone := j.Registered(node, put.At), j.Gone(node)
	changes := j.All(func(e history.Event) bool {
		return e.Node == node && e.At >= registered && e.At < gone && j.MarkChange(e)
	})
	before := slices.IndexFunc(changes, func(e history.Event) bool { return e.At >= put.At })
	if before < 0 {
		before = len(changes)
	}
	marks, mark := j.MarksAfter(changes[:before])
	if len(marks) > 0 {
		if why := j.unprompted(node, mark); why != "" {
			return v.unknown(fmt.Sprintf("%s was marked %s, so its mark proves nothing", node, why), mark, put)
		}
	} else {
		i := slices.IndexFunc(changes, func(e history.Event) bool { return e.At >= put.At && j.Marking(e) })
		if i < 0 {
			return j.unmarked(v, limit, put, c.Within.D())
		}
		mark = changes[i]
	}
	limit = j.extended(limit, put, mark.At, c.Within.D())
	found := append(slices.Clone(limit.evidence), mark)
	at := max(limit.from, mark.At)
	asked, doubt := j.markAsked(put, mark, limit.from+c.Within.D())
	after := fmt.Sprintf("%s marked after %s", node, limit.after(at))
	if asked.Kind != "" {
		at, found = max(limit.from, asked.At), append(found, asked)
		after = fmt.Sprintf("%s asked for after %s, and seen marked at +%s", node, limit.after(at), history.Seconds(mark.At))
	}
	v.Numbers = map[string]float64{"marked_seconds": (at - limit.from).Seconds()}
	switch {
	case doubt != "":
		return v.unknown(after+": "+doubt, found...)
	case at > limit.from+c.Within.D():
		if why := j.handlerWaited(limit.from, at, limit.from+c.Within.D()); why != "" {
			return v.noise(after+": "+why, found...)
		}
		return v.fail(after, found...)
	}
	if marks, _ := j.MarksAfter(changes); len(marks) == 0 {
		off := changes[len(changes)-1]
		if j.ByOperator(off) {
			return v.pass(after+", and uncordoned by the operator", append(found, off)...)
		}
		return v.fail(fmt.Sprintf("%s, and the mark taken off again at +%s", after, history.Seconds(off.At)), put, mark, off)
	}
	return v.pass(after, found...)
}

// unprompted shows why a mark shows no reaction to a later notice: no notice before it
// requires a mark. A handler that marks a node for a notice that requires none, such as a
// rebalance recommendation, has not shown that it acts on one that does.
func (j judge) unprompted(node string, mark history.Event) string {
	earlier := j.All(func(e history.Event) bool {
		return e.Kind == history.NoticePut && e.Node == node && e.At <= mark.At
	})
	switch {
	case len(earlier) == 0:
		return "before any notice named it"
	case !slices.ContainsFunc(earlier, j.requiresMark):
		return fmt.Sprintf("after notice %q and before any other: none of which requires a mark", earlier[0].Step())
	}
	return ""
}

// requiresMark reports whether a handler must mark the node of the notice: a check of the
// scenario requires it, or the notice reports that the instance ends.
func (j judge) requiresMark(put history.Event) bool {
	for _, check := range j.Scenario.Checks {
		if m, ok := check.Requirement.(Marked); ok && m.Notice == put.Step() {
			if node, why := j.Node(m.Node); why == "" && node == put.Node {
				return true
			}
		}
	}
	if j.callsForDrain(put) {
		return true
	}
	switch put.NoticeType() {
	case history.SpotInterruption, history.ScheduledChange, history.CapacityReservationInterruption, history.LifecycleAction, history.CapacityBlockExpiration, history.StatusChecked:
		return true
	case history.StateChange:
		return slices.ContainsFunc(j.Scenario.Steps, func(s scenarios.Step) bool {
			return s.Notice != nil && s.Notice.Name == put.Step() && slices.Contains([]string{"stopping", "stopped", "shutting-down", "terminated"}, s.Notice.State)
		})
	}
	return false
}

// markAsked finds, for a mark that was seen after its limit, the handler's write in the
// audit log that made it. If it is unknown whether the mark was in time, doubt shows why.
func (j judge) markAsked(put, mark history.Event, until time.Duration) (asked history.Event, doubt string) {
	if mark.At <= until {
		return asked, ""
	}
	var wrote, recent []history.Event
	earliest, _ := j.Earliest(mark)
	for _, e := range j.History.Events {
		if !e.WroteNode() || e.Node != mark.Node || e.Said == nil || *e.Said < put.At || *e.Said > mark.At {
			continue
		}
		e.At = *e.Said
		wrote = append(wrote, e)
		if e.At >= min(earliest, mark.At-seenLate) {
			recent = append(recent, e)
		}
	}
	if len(wrote) == 0 {
		return asked, j.mayBeInTime(mark, until)
	}
	byTime := func(a, b history.Event) int { return cmp.Compare(a.At, b.At) }
	if last := slices.MaxFunc(wrote, byTime); last.At <= until {
		return last, ""
	}
	if len(recent) == 0 {
		recent = wrote
	}
	if first := slices.MinFunc(recent, byTime); first.At <= until {
		return asked, fmt.Sprintf("the audit log has several writes of the handler's, and the one at +%s was in time", history.Seconds(first.At))
	}
	return asked, ""
}

// unmarked distinguishes a mark that did not come from one that could not be seen.
func (j judge) unmarked(v Verdict, l limit, put history.Event, within time.Duration) Verdict {
	node := put.Node
	l = j.extended(l, put, j.Gone(node), within)
	until := min(l.from+within, j.Gone(node))
	if put.NoticeType() != history.StatusChecked && !j.History.Meta.Handler.ReadsMetadata() && len(j.MessagesOf(put)) == 0 {
		if lost := j.neverReceived(v, put, until); lost.Outcome == Unknown {
			return lost
		}
	}
	if why := j.Unseen(until); why != "" {
		return v.unknown(node+" not marked: "+why, l.evidence...)
	}
	if taken, ok := j.Reclaimed(node); ok {
		return v.fail(node+" not marked before its instance was taken", append(l.evidence, taken)...)
	}
	return v.fail(node+" not marked", l.evidence...)
}
