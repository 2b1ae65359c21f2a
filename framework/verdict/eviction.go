package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkNotScheduled = check{
	Kind: Kind{
		ID: "notScheduled", Title: "no pod comes to %s",
		Requires: "No evictable pod is bound to the node later than a second after the handler marked it, while pods are bound elsewhere.",
		Fix:      "cordon, or taint with NoSchedule, before the first eviction: otherwise the scheduler puts the replacements back on the node",
		Look:     Look{Lane: LanePods, Text: "the lanes Node and Pods: which pod was scheduled to the node, and how long after its mark?"},
	},
	judge: by(notScheduled),
}

func notScheduled(j judge, v Verdict, c scenarios.NotScheduled) Verdict {
	v = v.wants(fmt.Sprintf("no pod bound to the node once it is marked for notice %q", c.Notice), c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	mark, ok := j.MarkedAfter(node, put)
	if !ok {
		return v.unknown(node+" was not marked", put)
	}
	if _, why := j.Earliest(mark); why != "" {
		return v.unknown(node+" may have been marked long before it was seen: "+why, mark)
	}
	until := j.Gone(node)
	var here []history.Event
	elsewhere := 0
	for _, p := range j.Pods {
		bound, ok := p.FirstOf(history.PodScheduled)
		if !ok || bound.At < mark.At || bound.At >= until || !p.Evictable() {
			continue
		}
		if bound.Node != node {
			elsewhere++
		} else if at, why := j.Earliest(bound); why != "" && at < mark.At+inFlight && bound.At >= mark.At {
			return v.unknown(fmt.Sprintf("%s may have come before %s was marked: %s", bound.Pod, node, why), mark, bound)
		} else if bound.At >= mark.At+inFlight {
			here = append(here, bound)
		}
	}
	v.Numbers = map[string]float64{"here": float64(len(here)), "elsewhere": float64(elsewhere)}
	switch {
	case len(here) > 0:
		return v.fail(fmt.Sprintf("%d pods came to %s, the first %s %s after the mark", len(here), node, here[0].Pod,
			history.Seconds(here[0].At-mark.At)), append([]history.Event{mark}, capped(here)...)...)
	case j.Unseen(until) != "":
		return v.unknown("none came: "+j.Unseen(until), mark)
	case elsewhere == 0:
		return v.unknown("no pod was bound anywhere after the mark, so that none came proves nothing", mark)
	}
	return v.pass(fmt.Sprintf("none; %d pods were bound elsewhere", elsewhere), mark)
}

var checkReplaced = check{
	Kind: Kind{
		ID: "replaced", Title: "pods of %s replaced",
		Requires: "As many new pods of every controller are Ready on other nodes at the deadline as it had evictable ones on the node.",
		Fix:      "begin to evict early enough for replacements to start, and leave their controllers' pods to the Eviction API",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: when did the first eviction begin, and which replacement was not Ready in time, or did not stay so?"},
	},
	judge: by(replaced),
}

func replaced(j judge, v Verdict, c scenarios.Replaced) Verdict {
	v = v.wants(fmt.Sprintf("as many new pods Ready elsewhere at the deadline of notice %q", c.Notice), c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	missing := map[string]int{} // by controller
	for _, p := range j.ToLeave(node, put.At) {
		if owner := p.Controller(); owner != "" && !p.FinishedBy(*put.Until) {
			missing[owner]++
		}
	}
	if len(missing) == 0 {
		return v.unknown(fmt.Sprintf("no pod of a controller was on %s", node), put)
	}
	// A drill may end before the deadline, once all that it waits for is there.
	pods, last, seen := 0, put, min(*put.Until, j.Observed)
	for _, p := range j.Pods {
		owner := p.Controller()
		if p.Events[0].At < put.At || missing[owner] == 0 {
			continue
		}
		ready, ok := p.ReadyAt(seen)
		if !ok || ready.Node == node {
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
	case j.Unseen(*put.Until) != "":
		return v.unknown(fmt.Sprintf("none Ready of %s: %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "), j.Unseen(*put.Until)), put)
	}
	return v.fail("none Ready in time of "+strings.Join(slices.Sorted(maps.Keys(missing)), ", "), put)
}

var checkGraceHonoured = check{
	Kind: Kind{
		ID: "graceHonoured", Title: "grace of %s honoured",
		Requires: "The pods terminate with no less than their own grace period, and have at least this long to stop.",
		Fix:      "evict with no gracePeriodSeconds of the handler's own, so that each pod gets the one that it declares",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: the grace period at which the pod began to terminate, and when it exited"},
	},
	judge: by(graceHonoured),
}

func graceHonoured(j judge, v Verdict, c scenarios.GraceHonoured) Verdict {
	v = v.wants(fmt.Sprintf("terminating with no less than their own grace period, and at least %s to stop", c.AtLeast.D()), c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	pods, shortest := 0, time.Duration(-1)
	var evidence []history.Event
	for _, p := range j.ToLeave(node, put.At) {
		if !p.In(c.Pods) || p.FinishedBy(j.Gone(node)) {
			continue
		}
		pods++
		terminating, ok := p.Terminating()
		switch {
		case !ok && j.Unseen(j.Gone(node)) != "":
			return v.unknown(fmt.Sprintf("%s had not begun to terminate: %s", p.Name(), j.Unseen(j.Gone(node))), put)
		case !ok:
			return v.fail(p.Name()+" never began to terminate", put)
		}
		own := p.Number(history.Grace)
		stopped, ok := p.Stopped()
		// A kubelet itself sets it to 0 to remove a pod whose containers have ended.
		if cut, found := p.First(func(e history.Event) bool {
			return e.Kind == history.PodTerminating && e.Numbers[history.Grace] < own && (!ok || e.At < stopped.At)
		}); found {
			return v.fail(fmt.Sprintf("%s was given %.0f s of its %.0f s", p.Name(), cut.Numbers[history.Grace], own), cut)
		}
		for _, e := range known(terminating, stopped) {
			if _, why := j.Earliest(e); why != "" {
				return v.unknown(fmt.Sprintf("%s: when it had to stop, or had stopped, is unknown: %s", p.Name(), why), e)
			}
		}
		had := min(j.Gone(node), j.Observed)
		if ok && stopped.At <= had {
			had = stopped.At
		}
		had -= terminating.At
		if had < c.AtLeast.D() {
			if why := j.Unseen(terminating.At + c.AtLeast.D()); why != "" && !ok {
				return v.unknown(p.Name()+" had not stopped: "+why, terminating)
			}
			return v.fail(fmt.Sprintf("%s had %s to stop", p.Name(), history.Seconds(had)), known(terminating, stopped)...)
		}
		if shortest < 0 || had < shortest {
			shortest = had
		}
		evidence = append(evidence, terminating)
	}
	if pods == 0 {
		return v.unknown(fmt.Sprintf("no %s pod was on %s", c.Pods, node), put)
	}
	v.Numbers = map[string]float64{"pods": float64(pods), "shortest_seconds": shortest.Seconds()}
	return v.pass(fmt.Sprintf("%d pods had %s or more", pods, history.Seconds(shortest)), capped(evidence)...)
}

var checkNotStalled = check{
	Kind: Kind{
		ID: "notStalled", Title: "not stalled by %s",
		Requires: "Every other evictable pod of the node begins to terminate before the first of these slow ones is gone.",
		Fix:      "evict all pods in parallel: do not wait until one is gone before the next is evicted",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: which pod began to terminate only after another had gone?"},
	},
	judge: by(notStalled),
}

func notStalled(j judge, v Verdict, c scenarios.NotStalled) Verdict {
	v = v.wants("every other pod terminating before the first of these is gone", c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	limit := j.Gone(node)
	var slow, others []story.Pod
	for _, p := range j.ToLeave(node, put.At) {
		switch {
		case p.In(c.Pods):
			slow = append(slow, p)
			if e, ok := p.Stopped(); ok {
				limit = min(limit, e.At)
			}
		case !p.Critical():
			others = append(others, p)
		}
	}
	others = slices.DeleteFunc(others, func(p story.Pod) bool { return p.FinishedBy(limit) })
	if len(slow) == 0 || len(others) == 0 {
		return v.unknown(fmt.Sprintf("%d %s pods and %d others were on %s", len(slow), c.Pods, len(others), node), put)
	}
	last := put
	// The slow ones stall each other too, if the handler waits for each in turn.
	for _, p := range append(others, slow...) {
		terminating, ok := p.Terminating()
		if !ok || terminating.At > limit {
			if why := j.Unseen(limit); why != "" {
				return v.unknown(fmt.Sprintf("%s had not begun to terminate: %s", p.Name(), why), put)
			}
			return v.fail(fmt.Sprintf("%s had not begun to terminate by %s after the notice, when the first was gone", p.Name(), history.Seconds(limit-put.At)), put)
		}
		if terminating.At > last.At {
			last = terminating
		}
	}
	v.Numbers = map[string]float64{"pods": float64(len(others) + len(slow)), "told_seconds": (last.At - put.At).Seconds()}
	return v.pass(fmt.Sprintf("all %d began to terminate after %s", len(others)+len(slow), history.Seconds(last.At-put.At)), put, last)
}

var checkCriticalLast = check{
	Kind: Kind{
		ID: "criticalLast", Title: "critical pods of %s last",
		Requires: "No pod of a system priority class begins to terminate before every other evictable pod of the node has stopped.",
		Fix:      "evict pods of the system priority classes only after the others have stopped",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: which critical pod began to terminate while others still ran?"},
	},
	judge: by(criticalLast),
}

func criticalLast(j judge, v Verdict, c scenarios.CriticalLast) Verdict {
	v = v.wants("no critical pod terminating before every other has stopped", c.Node)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	var critical, others []story.Pod
	for _, p := range j.ToLeave(node, put.At) {
		if p.Critical() {
			critical = append(critical, p)
		} else {
			others = append(others, p)
		}
	}
	if len(critical) == 0 || len(others) == 0 {
		return v.unknown(fmt.Sprintf("%d critical pods and %d others were on %s", len(critical), len(others), node), put)
	}
	terminating := history.Event{}
	for _, p := range critical {
		if e, ok := p.Terminating(); ok && (terminating.Kind == "" || e.At < terminating.At) {
			terminating = e
		}
	}
	if terminating.Kind == "" {
		return v.unknown("no critical pod began to terminate", put)
	}
	for _, p := range others {
		if stopped, ok := p.Stopped(); !ok || stopped.At > terminating.At {
			return v.fail(fmt.Sprintf("%s began to terminate at +%s, when %s had not stopped", terminating.Pod, history.Seconds(terminating.At), p.Name()), known(terminating, stopped)...)
		}
	}
	return v.pass(fmt.Sprintf("%d began to terminate after %d others had stopped", len(critical), len(others)), terminating)
}
