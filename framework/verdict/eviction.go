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

// toLeave are the pods that a drain of the node has to move: those that were on
// it at that time and can be evicted.
func (d drill) toLeave(node string, at time.Duration) []pod {
	var out []pod
	for _, p := range d.pods {
		if p.on(node, at) && p.evictable() {
			out = append(out, p)
		}
	}
	return out
}

// toDrain are the evictable pods that were on the node when the notice was put, or
// came before the handler marked it: what it finds there then is for it to move.
func (d drill) toDrain(node string, put history.Event) []pod {
	out := d.toLeave(node, put.At)
	mark, ok := d.markedAfter(node, put)
	for _, p := range d.pods {
		if came, there := p.arrived(node); ok && there && came.At > put.At && came.At < mark.At && p.evictable() {
			out = append(out, p)
		}
	}
	return out
}

// markedAfter is the first mark that the handler put on the node after the notice.
func (d drill) markedAfter(node string, put history.Event) (history.Event, bool) {
	return d.first(func(e history.Event) bool {
		return e.Node == node && e.At >= put.At && isMark(e) && markChange(e, d.history.Meta.Handler)
	})
}

func (d drill) notScheduled(c scenarios.NotScheduled) Verdict {
	v := Verdict{Check: "no pod comes to " + c.Node, Want: fmt.Sprintf("no pod bound to the node once it is marked for notice %q", c.Notice)}
	node, put, why := d.noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	mark, ok := d.markedAfter(node, put)
	if !ok {
		return v.unknown(node+" was not marked", put)
	}
	until := d.gone(node)
	var here []history.Event
	elsewhere := 0
	for _, p := range d.pods {
		bound, ok := p.first(func(e history.Event) bool { return e.Kind == history.PodScheduled })
		if !ok || bound.At < mark.At || bound.At >= until || !p.evictable() {
			continue
		}
		if bound.Node != node {
			elsewhere++
		} else if bound.At >= mark.At+inFlight {
			here = append(here, bound)
		}
	}
	v.Numbers = map[string]float64{"here": float64(len(here)), "elsewhere": float64(elsewhere)}
	switch {
	case len(here) > 0:
		return v.fail(fmt.Sprintf("%d pods came to %s, the first %s %s after the mark", len(here), node, here[0].Pod,
			history.Seconds(here[0].At-mark.At)), append([]history.Event{mark}, capped(here)...)...)
	case d.unseen(until) != "":
		return v.unknown("none came: "+d.unseen(until), mark)
	case elsewhere == 0:
		return v.unknown("no pod was bound anywhere after the mark, so that none came shows nothing", mark)
	}
	return v.pass(fmt.Sprintf("none; %d pods were bound elsewhere", elsewhere), mark)
}

func (d drill) replaced(c scenarios.Replaced) Verdict {
	v := Verdict{
		Check: "pods of " + c.Node + " replaced",
		Want:  fmt.Sprintf("as many new pods Ready elsewhere before the deadline of notice %q", c.Notice),
	}
	node, put, why := d.deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	missing := map[string]int{} // by controller
	for _, p := range d.toLeave(node, put.At) {
		if owner := p.events[0].Owner; owner != "" {
			missing[owner]++
		}
	}
	if len(missing) == 0 {
		return v.unknown(fmt.Sprintf("no pod of a controller was on %s", node), put)
	}
	pods, last := 0, put
	for _, p := range d.pods {
		owner := p.events[0].Owner
		if p.events[0].At < put.At || missing[owner] == 0 {
			continue
		}
		ready, ok := p.first(func(e history.Event) bool { return e.Kind == history.PodReady && e.Node != node && e.At <= *put.Until })
		if !ok {
			continue
		}
		pods++
		missing[owner]--
		if ready.At > last.At {
			last = ready
		}
	}
	maps.DeleteFunc(missing, func(_ string, n int) bool { return n == 0 })
	v.Numbers = map[string]float64{"replaced": float64(pods)}
	switch {
	case len(missing) == 0:
		v.Numbers["replaced_seconds"] = (last.At - put.At).Seconds()
		return v.pass(fmt.Sprintf("%d pods Ready elsewhere after %s", pods, history.Seconds(last.At-put.At)), put, last)
	case d.unseen(*put.Until) != "":
		return v.unknown(fmt.Sprintf("none Ready of %s: %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "), d.unseen(*put.Until)), put)
	}
	return v.fail("none Ready in time of "+strings.Join(slices.Sorted(maps.Keys(missing)), ", "), put)
}

func (d drill) graceHonoured(c scenarios.GraceHonoured) Verdict {
	v := Verdict{
		Check: "grace of " + c.Pods + " honoured",
		Want:  fmt.Sprintf("told to end with no less than their own grace period, and at least %s to stop", c.AtLeast.D()),
	}
	node, put, why := d.noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	pods, shortest := 0, time.Duration(-1)
	var evidence []history.Event
	for _, p := range d.toLeave(node, put.At) {
		if !p.in(c.Pods) {
			continue
		}
		pods++
		told, ok := p.told()
		switch {
		case !ok && d.unseen(d.gone(node)) != "":
			return v.unknown(fmt.Sprintf("%s not told to end: %s", p.name(), d.unseen(d.gone(node))), put)
		case !ok:
			return v.fail(p.name()+" was never told to end", put)
		}
		own := p.number(history.Grace)
		stopped, ok := p.stopped()
		// A kubelet sets it to 0 itself, to let the pod go whose containers have ended.
		if cut, found := p.first(func(e history.Event) bool {
			return e.Kind == history.PodTerminating && e.Numbers[history.Grace] < own && (!ok || e.At < stopped.At)
		}); found {
			return v.fail(fmt.Sprintf("%s was given %.0f s of its %.0f s", p.name(), cut.Numbers[history.Grace], own), cut)
		}
		had := min(d.gone(node), d.observed)
		if ok && stopped.At <= had {
			had = stopped.At
		}
		had -= told.At
		if had < c.AtLeast.D() {
			if why := d.unseen(told.At + c.AtLeast.D()); why != "" && !ok {
				return v.unknown(p.name()+" had not stopped: "+why, told)
			}
			return v.fail(fmt.Sprintf("%s had %s to stop", p.name(), history.Seconds(had)), known(told, stopped)...)
		}
		if shortest < 0 || had < shortest {
			shortest = had
		}
		evidence = append(evidence, told)
	}
	if pods == 0 {
		return v.unknown(fmt.Sprintf("no %s pod was on %s", c.Pods, node), put)
	}
	v.Numbers = map[string]float64{"pods": float64(pods), "shortest_seconds": shortest.Seconds()}
	return v.pass(fmt.Sprintf("%d pods had %s or more", pods, history.Seconds(shortest)), capped(evidence)...)
}

func (d drill) notStalled(c scenarios.NotStalled) Verdict {
	v := Verdict{Check: "not stalled by " + c.Pods, Want: "every other pod told to end before the first of these is gone"}
	node, put, why := d.noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	limit := d.gone(node)
	var slow, others []pod
	for _, p := range d.toLeave(node, put.At) {
		switch {
		case p.in(c.Pods):
			slow = append(slow, p)
			if e, ok := p.stopped(); ok {
				limit = min(limit, e.At)
			}
		case !p.critical():
			others = append(others, p)
		}
	}
	if len(slow) == 0 || len(others) == 0 {
		return v.unknown(fmt.Sprintf("%d %s pods and %d others were on %s", len(slow), c.Pods, len(others), node), put)
	}
	last := put
	// Those that are slow stall each other too: they come one by one where one is
	// waited for.
	for _, p := range append(others, slow...) {
		told, ok := p.told()
		if !ok || told.At > limit {
			if why := d.unseen(limit); why != "" {
				return v.unknown(fmt.Sprintf("%s not told to end: %s", p.name(), why), put)
			}
			return v.fail(fmt.Sprintf("%s not told to end by %s after the notice, when the first was gone", p.name(), history.Seconds(limit-put.At)), put)
		}
		if told.At > last.At {
			last = told
		}
	}
	v.Numbers = map[string]float64{"pods": float64(len(others) + len(slow)), "told_seconds": (last.At - put.At).Seconds()}
	return v.pass(fmt.Sprintf("all %d told to end after %s", len(others)+len(slow), history.Seconds(last.At-put.At)), put, last)
}

func (d drill) criticalLast(c scenarios.CriticalLast) Verdict {
	v := Verdict{Check: "critical pods of " + c.Node + " last", Want: "no critical pod told to end before every other has stopped"}
	node, put, why := d.noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	var critical, others []pod
	for _, p := range d.toLeave(node, put.At) {
		if p.critical() {
			critical = append(critical, p)
		} else {
			others = append(others, p)
		}
	}
	if len(critical) == 0 || len(others) == 0 {
		return v.unknown(fmt.Sprintf("%d critical pods and %d others were on %s", len(critical), len(others), node), put)
	}
	told := history.Event{}
	for _, p := range critical {
		if e, ok := p.told(); ok && (told.Kind == "" || e.At < told.At) {
			told = e
		}
	}
	if told.Kind == "" {
		return v.unknown("no critical pod was told to end", put)
	}
	for _, p := range others {
		if stopped, ok := p.stopped(); !ok || stopped.At > told.At {
			return v.fail(fmt.Sprintf("%s told to end at +%s, when %s had not stopped", told.Pod, history.Seconds(told.At), p.name()), known(told, stopped)...)
		}
	}
	return v.pass(fmt.Sprintf("%d told to end after %d others had stopped", len(critical), len(others)), told)
}
