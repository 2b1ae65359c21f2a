package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Marked has the parameters of checkMarked. Exactly one of within, beforeEviction and untilGone is set.
type Marked struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	// After is a fault or a disturbance. If it ends later than the notice is sent, within
	// counts from its end.
	After  string          `yaml:"after,omitempty"`
	Within strict.Duration `yaml:"within,omitempty"`
	// BeforeEviction requires that a mark is confirmed before the first pod is requested to leave.
	BeforeEviction bool `yaml:"beforeEviction,omitempty"`
	// UntilGone requires that the node, once marked, is never without a mark until its instance is gone.
	UntilGone bool `yaml:"untilGone,omitempty"`
}

// Validate checks the parameters.
func (c Marked) Validate(in *scenarios.Scope) {
	in.FleetNotice(c.Node, c.Notice)
	in.After(c.After)
	in.ExactlyOne("within, beforeEviction, untilGone", c.Within > 0, c.BeforeEviction, c.UntilGone)
	if c.After != "" && c.Within == 0 {
		in.Problem("after", "is only allowed with within")
	}
}

// DecidedBy is how long it needs the recording.
func (c Marked) DecidedBy(t scenarios.Times) scenarios.Observation {
	switch {
	case c.BeforeEviction:
		return scenarios.Happens(t.Deadlines[c.Notice]).On(c.Node, t)
	case c.UntilGone:
		return scenarios.Absent(t.Stepped+scenarios.RepeatTime).On(c.Node, t)
	}
	return scenarios.Happens(t.SentOrEnded(c.Notice, c.After)+c.Within.D()).On(c.Node, t)
}

var checkMarked = by(Kind{
	ID: "marked", Title: "marked %s", Verdicts: []ID{"marked", "markedFirst", "markKept"},
	Requires: "A node that a notice names carries one of the marks that the handler's description names: within a time of the notice, and still at the end; or, as the API server confirms, before the handler requests the first pod of the node to leave; or from the first mark on until the instance is gone. A taint with the effect PreferNoSchedule is no mark. If the message came late to a handler that asked for it, the time counts from then.",
	Fix:      "cordon or taint the node as soon as the notice is read, before anything that takes time; name the handler's mark under marks in its description",
	Fixes: map[ID]string{
		"markedFirst": "cordon or taint the node, wait for the answer that confirms it, and evict only then: a pod that is evicted before may come back to the node; a mark that fails, such as with 409, must be set again first",
		"markKept":    "leave the mark on the node when the drain is over, or blocked, until the instance is gone: whoever takes it off lets new pods come to a node that is about to end",
	},
	Look: Look{Lane: LaneNode, Text: "the lanes Handler, Node and Pods: was the message received, what followed, and was a mark taken off? Then handler.log, and the events api.call of history.jsonl about the node and its pods"},
}, judgeMarked)

func judgeMarked(j judge, v Verdict, c Marked) Verdict {
	switch {
	case c.Node == scenarios.FleetNodes:
		return j.ofFleet(v, c.Notice, func(node string) Verdict {
			c.Node = node
			return judgeMarked(j, v, c)
		})
	case c.BeforeEviction:
		return markedFirst(j, v.as("markedFirst", "%s marked before its first eviction"), c)
	case c.UntilGone:
		return markKept(j, v.as("markKept", "mark of %s kept"), c)
	}
	return marked(j, v, c)
}

func marked(j judge, v Verdict, c Marked) Verdict {
	handler := j.History.Meta.Handler
	v = v.requires(fmt.Sprintf("%s within %s of notice %q", story.ClaimedMarks(handler), c.Within.D(), c.Notice)+andAfter(c.After), c.Node)
	if !handler.Unschedulable && handler.Taint == "" {
		return v.unknown(fmt.Sprintf("the description of handler %q claims no mark", handler.Name))
	}
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	timer, why := j.Countdown(put, c.After)
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
			return j.unmarked(v, timer, put, c.Within.D())
		}
		mark = changes[i]
	}
	timer = j.Extended(timer, put, mark.At, c.Within.D())
	found := append(slices.Clone(timer.Evidence), mark)
	at := max(timer.From, mark.At)
	asked, doubt := story.MarkRequested(j.Story, put, mark, timer.From+c.Within.D())
	after := fmt.Sprintf("%s marked after %s", node, timer.After(at))
	if asked.Kind != "" {
		at, found = max(timer.From, asked.At), append(found, asked)
		after = fmt.Sprintf("%s asked for after %s, and seen marked at +%s", node, timer.After(at), history.Seconds(mark.At))
	}
	v.Numbers = map[string]float64{"marked_seconds": (at - timer.From).Seconds()}
	switch {
	case doubt != "":
		return v.unknown(after+": "+doubt, found...)
	case at > timer.From+c.Within.D():
		if why := loss.HandlerWaited(j.Story, timer.From, at, timer.From+c.Within.D()); why != "" {
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

func markedFirst(j judge, v Verdict, c Marked) Verdict {
	handler := j.History.Meta.Handler
	v = v.requires(story.ClaimedMarks(handler)+", confirmed before the first pod is asked to leave", c.Node)
	if !handler.Unschedulable && handler.Taint == "" {
		return v.unknown(fmt.Sprintf("the description of handler %q claims no mark", handler.Name))
	}
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	if why := j.APIUnrecorded(); why != "" {
		return v.unknown(why, put)
	}
	removals := j.APICalls(func(e history.Event) bool {
		return story.Removes(e) && story.Arrived(e) >= put.At && story.PodOn(j.Story, e.Pod, node, story.Arrived(e))
	})
	if len(removals) == 0 {
		return v.unknown("no pod of "+node+" was asked to leave", put)
	}
	first := slices.MinFunc(removals, func(a, b history.Event) int { return cmp.Compare(story.Arrived(a), story.Arrived(b)) })
	asked := story.Arrived(first)
	writes := j.APICalls(func(e history.Event) bool { return e.Node == node && e.At >= put.At && story.Done(e) })
	i := slices.IndexFunc(writes, j.SetsMark)
	switch {
	case i >= 0 && writes[i].At <= asked:
		return v.pass(fmt.Sprintf("%s marked %s before %s was asked to leave", node, history.Seconds(asked-writes[i].At), first.Pod), put, writes[i], first)
	case slices.ContainsFunc(writes, func(e history.Event) bool { return slices.Contains(e.Marks(), history.MarksUnknown) && e.At <= asked }):
		return v.unknown(node+" was written to before the first eviction, in a format that the recording proxy cannot read", put, first)
	case i >= 0:
		return v.fail(fmt.Sprintf("%s asked to leave %s before %s was marked", first.Pod, history.Seconds(writes[i].At-asked), node), put, first, writes[i])
	}
	return v.fail(fmt.Sprintf("%s asked to leave, and %s never marked", first.Pod, node), put, first)
}

func markKept(j judge, v Verdict, c Marked) Verdict {
	v = v.requires("never without a mark from the first one on", c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	mark, ok := j.MarkedAfter(node, put)
	if !ok {
		return v.unknown(node+" was not marked", put)
	}
	until := j.There(node)
	var changes, unclear []history.Event
	for _, e := range j.Events {
		if e.Node != node || e.At < mark.At || e.At >= until || !j.MarkChange(e) {
			continue
		}
		changes = append(changes, e)
		if marks, _ := j.MarksAfter(changes); len(marks) > 0 || j.ByOperator(e) {
			continue
		}
		switch j.Changed(e) {
		case story.Blamed:
			return v.fail(fmt.Sprintf("the last mark was taken off at +%s, %s after the first", history.Seconds(e.At), history.Seconds(e.At-mark.At)), mark, e)
		case story.Unclear:
			unclear = append(unclear, e)
		}
	}
	switch {
	case len(unclear) > 0:
		return v.unknown(unclearWho(unclear), capped(append([]history.Event{mark}, unclear...))...)
	case j.Unseen(until) != "":
		return v.unknown("kept: "+j.Unseen(until), mark)
	}
	return v.pass(fmt.Sprintf("kept for %s", history.Seconds(min(until, j.Observed)-mark.At)), mark)
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
		if m, ok := check.Requirement.(Marked); ok && m.Within > 0 && m.Notice == put.Step() && j.isNode(m.Node, put.Node) {
			return true
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

// unmarked distinguishes a mark that did not come from one that could not be seen.
func (j judge) unmarked(v Verdict, timer story.Countdown, put history.Event, within time.Duration) Verdict {
	node := put.Node
	timer = j.Extended(timer, put, j.Gone(node), within)
	until := min(timer.From+within, j.Gone(node))
	if put.NoticeType() != history.StatusChecked && !j.History.Meta.Handler.ReadsMetadata() && len(j.MessagesOf(put)) == 0 {
		if lost := j.neverReceived(v, put, until); lost.Outcome == Unknown {
			return lost
		}
	}
	if why := j.Unseen(until); why != "" {
		return v.unknown(node+" not marked: "+why, timer.Evidence...)
	}
	if taken, ok := j.Reclaimed(node); ok {
		return v.fail(node+" not marked before its instance was taken", append(timer.Evidence, taken)...)
	}
	return v.fail(node+" not marked", timer.Evidence...)
}
