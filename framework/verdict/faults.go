package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// faults asks whether every fault of the scenario met a call: one that hit
// nothing leaves nothing shown.
func (d drill) faults() Verdict {
	v := Verdict{Check: "faults injected", Want: "every fault of the scenario begun, and a call hit by it"}
	var evidence []history.Event
	hits := 0
	for _, step := range d.scenario.Steps {
		if step.Fault == nil {
			continue
		}
		name := step.Fault.Name
		begun, ok := d.first(func(e history.Event) bool { return e.Kind == history.FaultBegun && e.Key == name })
		if !ok {
			return v.unknown(fmt.Sprintf("fault %q never began", name))
		}
		hit := d.all(func(e history.Event) bool { return e.Kind == history.FaultHit && e.Key == name })
		if len(hit) == 0 {
			return v.unknown(fmt.Sprintf("fault %q hit no call", name), begun)
		}
		hits += len(hit)
		evidence = append(evidence, begun, hit[0])
	}
	v.Numbers = map[string]float64{"hits": float64(hits)}
	return v.pass(fmt.Sprintf("%d hits", hits), capped(evidence)...)
}

// limit is what a time to act counts from.
type limit struct {
	from     time.Duration
	evidence []history.Event // what it was read from
}

// limitOf counts from the put of a notice or message, or from the end of a fault
// where one is named and ended later. Where that cannot be told, why says so.
func (d drill) limitOf(put history.Event, fault string) (l limit, why string) {
	l = limit{from: put.At, evidence: []history.Event{put}}
	if fault == "" {
		return l, ""
	}
	if _, ok := d.first(func(e history.Event) bool { return e.Kind == history.FaultHit && e.Key == fault }); !ok {
		return l, fmt.Sprintf("fault %q hit no call", fault)
	}
	ended, ok := d.first(func(e history.Event) bool { return e.Kind == history.FaultEnded && e.Key == fault })
	if !ok {
		return l, fmt.Sprintf("fault %q did not end", fault)
	}
	if ended.At > put.At {
		l.from = ended.At
		l.evidence = append(l.evidence, ended)
	}
	return l, ""
}

// wantAfter is how a verdict's Want names the fault that a limit counts from.
func wantAfter(fault string) string {
	if fault == "" {
		return ""
	}
	return fmt.Sprintf(" and of the end of fault %q", fault)
}

func (d drill) drainedOnce(c scenarios.DrainedOnce) Verdict {
	handler := d.history.Meta.Handler
	v := Verdict{Check: "drained once " + c.Node, Want: "one drain: " + claimedMarks(handler) + " once"}
	if handler.DrainEvent != "" {
		v.Want += fmt.Sprintf(", event %s once", handler.DrainEvent)
	}
	node, why := d.node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	gone, signs := d.gone(node), d.signs(node)
	if sign, n := most(signs); n > 1 {
		return v.fail(fmt.Sprintf("%s: %s %d times, the last at +%s", node, sign, n, history.Seconds(signs[sign][n-1].At)), capped(signs[sign])...)
	}
	marked := slices.Concat(signs[string(history.NodeCordoned)], signs[string(history.NodeTainted)])
	announced := signs[handler.DrainEvent]
	switch {
	case d.unseen(min(gone, d.end)) != "":
		return v.unknown("no second drain: " + d.unseen(min(gone, d.end)))
	case len(marked) == 0:
		return v.fail(node + " never marked")
	case handler.DrainEvent != "" && len(announced) == 0:
		return v.unknown(fmt.Sprintf("%s marked, and no event %s: a second drain would not show", node, handler.DrainEvent), marked...)
	}
	if handler.DrainEvent == "" {
		return v.pass(node+" drained once, by its marks; the handler announces no drain", marked...)
	}
	return v.pass(node+" drained once", slices.Concat(marked, announced)...)
}

// signs are what shows that the handler drains the node, by name: its marks being
// put on, and the event by which it announces a drain.
func (d drill) signs(node string) map[string][]history.Event {
	handler, gone := d.history.Meta.Handler, d.gone(node)
	signs := map[string][]history.Event{}
	for _, e := range d.events {
		switch {
		case e.Node != node || e.At >= gone:
		case markChange(e, handler) && isMark(e):
			signs[string(e.Kind)] = append(signs[string(e.Kind)], e)
		case handler.DrainEvent != "" && e.Kind == history.ClusterEvent && e.Key == "Node" && e.Reason == handler.DrainEvent:
			signs[e.Reason] = append(signs[e.Reason], e)
		}
	}
	return signs
}

// most is the sign that was given most often, the first by name among equals.
func most(signs map[string][]history.Event) (sign string, n int) {
	for _, name := range slices.Sorted(maps.Keys(signs)) {
		if len(signs[name]) > n {
			sign, n = name, len(signs[name])
		}
	}
	return sign, n
}

// oneDrainPerCause asks whether no node was drained more often than something
// called for it. Which notices call for a drain is for other checks to say.
func (d drill) oneDrainPerCause() Verdict {
	v := Verdict{Check: "one drain per node and cause", Want: "no node marked, or a drain of it announced, more often than it was named"}
	nodes := map[string]bool{}
	drains := 0
	for _, e := range d.events {
		if e.Kind != history.NodePresent || nodes[e.Node] {
			continue
		}
		nodes[e.Node] = true
		signs, causes := d.signs(e.Node), d.causes(e.Node)
		sign, n := most(signs)
		if drains += n; n > max(1, len(causes)) {
			return v.fail(fmt.Sprintf("%s: %s %d times, and named %d times", e.Node, sign, n, len(causes)), capped(slices.Concat(causes, signs[sign]))...)
		}
	}
	switch {
	case len(nodes) == 0:
		return v.unknown("no node was seen")
	case d.unseen(d.end) != "":
		return v.unknown("no other drain: " + d.unseen(d.end))
	}
	return v.pass(fmt.Sprintf("%d drains", drains))
}

// of is true for a pod of the Deployment NAMESPACE/NAME.
func (p pod) of(deployment string) bool {
	namespace, name, _ := strings.Cut(deployment, "/")
	_, ok := p.first(func(e history.Event) bool {
		set, found := strings.CutPrefix(e.Owner, "ReplicaSet/"+name+"-")
		return found && !strings.Contains(set, "-") && strings.HasPrefix(e.Pod, namespace+"/")
	})
	return ok
}

func (d drill) notRestarted() Verdict {
	deployment := d.history.Meta.Handler.Deployment
	v := Verdict{Check: "handler not restarted", Want: "the handler's pods there throughout, no container ended or started again"}
	if deployment == "" {
		return v.unknown("the history does not say where the handler runs")
	}
	ends := []history.Kind{history.PodRestarted, history.PodExited, history.PodTerminating, history.PodDeleted, history.PodCreated}
	var bad []history.Event
	pods := 0
	for _, p := range d.pods {
		if !p.of(deployment) {
			continue
		}
		pods++
		for _, e := range p.events {
			if e.At >= d.begun && slices.Contains(ends, e.Kind) {
				bad = append(bad, e)
			}
		}
	}
	switch {
	case len(bad) > 0:
		got := fmt.Sprintf("%s: %s", bad[0].Pod, describe(bad))
		if code, ok := bad[0].Numbers[history.ExitCode]; ok {
			got += fmt.Sprintf(" (%s, exit code %.0f)", bad[0].Reason, code)
		}
		return v.fail(got, capped(bad)...)
	case pods == 0:
		return v.unknown("no pod of " + deployment + " was seen")
	case d.unseen(d.end) != "":
		return v.unknown("not restarted: " + d.unseen(d.end))
	}
	return v.pass(fmt.Sprintf("%d pods, none restarted", pods))
}

func (d drill) queueEmpty() Verdict {
	v := Verdict{Check: "queue empty", Want: "no message in the queue at the end"}
	for _, e := range slices.Backward(d.history.Events) {
		if e.Kind != history.QueueDepth {
			continue
		}
		visible, invisible := e.Numbers[history.Visible], e.Numbers[history.Invisible]
		v.Numbers = map[string]float64{"visible": visible, "invisible": invisible}
		if left := visible + invisible; left > 0 && left <= float64(d.kept()) {
			return v.pass(fmt.Sprintf("%.0f kept: %s", left, d.keeps()), e)
		}
		if visible+invisible != 0 {
			return v.fail(fmt.Sprintf("%.0f visible and %.0f handed out", visible, invisible), e)
		}
		return v.pass("none", e)
	}
	return v.unknown("the history does not say how many messages were left")
}

func (d drill) midDrain(c scenarios.MidDrain) Verdict {
	v := Verdict{Check: fmt.Sprintf("%s in the middle of the drain of %s", c.Disturbance, c.Node), Want: "the handler disturbed once the drain had begun, and before the last pod was gone"}
	node, why := d.node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	done := d.all(func(e history.Event) bool { return e.Kind == history.HandlerDisturbed && e.Key == c.Disturbance })
	if len(done) == 0 {
		return v.unknown(fmt.Sprintf("disturbance %q never began", c.Disturbance))
	}
	at := done[0]
	if why := d.withoutEffect(done); why != "" {
		return v.unknown(why, at)
	}
	begun, ok := d.recordedOn(node)
	if !ok || begun.At > at.At {
		return v.unknown("no drain of "+node+" had begun", at)
	}
	left := 0
	for _, p := range d.toLeave(node, begun.At) {
		if gone, ok := p.deleted(); !ok || gone.At > at.At {
			left++
		}
	}
	v.Numbers = map[string]float64{"left": float64(left), "into_drain_seconds": (at.At - begun.At).Seconds()}
	if left == 0 {
		return v.unknown("no pod was left on "+node+" that a drain has to move", begun, at)
	}
	return v.pass(fmt.Sprintf("%s into the drain, with %d pods left", history.Seconds(at.At-begun.At), left), begun, at)
}

// withoutEffect says why a disturbance of the handler's pods did nothing to it, or
// "".
func (d drill) withoutEffect(done []history.Event) string {
	if done[0].Reason == string(history.CutOffHandler) {
		left, ok := d.first(func(e history.Event) bool { return e.Kind == history.HandlerLeftAlone && e.Key == done[0].Key })
		if !ok || left.Numbers[history.Dropped] == 0 {
			return "not a packet of the handler's was dropped"
		}
		return ""
	}
	for _, was := range done {
		_, ok := d.first(func(e history.Event) bool {
			return e.At >= was.At && e.UID == was.UID && slices.Contains([]history.Kind{history.PodRestarted, history.PodExited, history.PodTerminating, history.PodDeleted}, e.Kind)
		})
		if !ok {
			return was.Pod + " went on as before"
		}
	}
	return ""
}
