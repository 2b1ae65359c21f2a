package verdict

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkAllTerminating = check{
	Kind: Kind{
		ID: "allTerminating", Title: "every pod of %s asked to terminate",
		Requires: "Every evictable pod that a drain has to move begins to terminate before the deadline, or has finished by itself, even if no pod can end on the node.",
		Fix:      "go on evicting when the node is NotReady, and do not wait until a pod is gone: its replacement can start elsewhere once it is evicted",
		Look:     Look{Lane: LanePods, Text: "the lanes Node and Pods: which pod was not evicted, and had the node stopped being Ready by then?"},
	},
	judge: by(allTerminating),
}

func allTerminating(j judge, v Verdict, c scenarios.AllTerminating) Verdict {
	v = v.wants(fmt.Sprintf("every evictable pod terminating before the deadline of notice %q", c.Notice), c.Node)
	node, put, why := j.Deadlined(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why, known(put)...)
	}
	until := min(*put.Until, j.Gone(node))
	pods := j.ToDrain(node, put)
	last := put
	var left []string
	doubt := ""
	for _, p := range pods {
		e, ok := p.FirstOf(history.PodTerminating, history.PodDeleted)
		switch {
		case p.FinishedBy(until):
		case ok && e.At <= until:
			if e.At > last.At {
				last = e
			}
		default:
			left = append(left, p.Name())
			if ok {
				doubt = j.mayBeInTime(e, until)
			}
		}
	}
	v.Numbers = map[string]float64{"pods": float64(len(pods)), "left": float64(len(left))}
	switch {
	case len(pods) == 0:
		return v.unknown("no evictable pod was on "+node, put)
	case len(left) == 0:
		v.Numbers["asked_seconds"] = (last.At - put.At).Seconds()
		return v.pass(fmt.Sprintf("all %d began to terminate after %s", len(pods), history.Seconds(last.At-put.At)), put, last)
	case j.Unseen(until) != "":
		return v.unknown(fmt.Sprintf("%d of %d had not begun to terminate: %s", len(left), len(pods), j.Unseen(until)), put)
	case len(left) == 1 && doubt != "":
		return v.unknown(left[0]+" began to terminate late: "+doubt, put)
	}
	return v.fail(fmt.Sprintf("%d of %d never began to terminate: %s", len(left), len(pods), strings.Join(left, ", ")), put)
}

var checkFinalizersHonoured = check{
	Kind: Kind{
		ID: "finalizersHonoured", Title: "finalizers of %s honoured",
		Requires: "The pods are evicted, and stay in the API: nobody but the one whose finalizer it is may remove it.",
		Fix:      "evict a pod once, and leave it to whoever set its finalizer: it holds neither the node nor other pods",
		Look:     Look{Lane: LanePods, Text: "the lane Pods: when did the pod disappear from the API? Then handler.log"},
	},
	judge: by(finalizersHonoured),
}

func finalizersHonoured(j judge, v Verdict, c scenarios.FinalizersHonoured) Verdict {
	v = v.wants("evicted, and still in the API", c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	until := j.there(node)
	var held []history.Event
	for _, p := range j.ToLeave(node, put.At) {
		if !p.In(c.Pods) {
			continue
		}
		if gone, ok := p.Deleted(); ok && gone.At < until {
			return v.fail(p.Name()+" is gone from the API, although its finalizer was not its handler's to remove", put, gone)
		}
		terminating, ok := p.Terminating()
		switch {
		case ok:
			held = append(held, terminating)
		case j.Unseen(until) != "":
			return v.unknown(p.Name()+" had not begun to terminate: "+j.Unseen(until), put)
		default:
			return v.fail(p.Name()+" was never evicted", put)
		}
	}
	switch {
	case len(held) == 0:
		return v.unknown(fmt.Sprintf("no %s pod was on %s", c.Pods, node), put)
	case j.Unseen(until) != "":
		return v.unknown("held: "+j.Unseen(until), put)
	}
	return v.pass(fmt.Sprintf("%d evicted and still there", len(held)), capped(held)...)
}

var checkEventsBounded = check{
	Kind: Kind{
		ID: "eventsBounded", Title: "events about blocked %s bounded",
		Requires: "A blocked eviction is reported without an event for each attempt: no more than this many for each blocked pod, repetitions included.",
		Fix:      "report a pod's blocked eviction once, and again only if the reason changes or minutes have passed: every event is a write to etcd, and many of them hide the others",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: how many events were there of one blocked pod, and how far apart?"},
	},
	judge: by(eventsBounded),
}

func eventsBounded(j judge, v Verdict, c scenarios.EventsBounded) Verdict {
	v = v.wants(fmt.Sprintf("at most %d events for each blocked pod within %s of notice %q", c.Max, scenarios.BlockedTime, c.Notice), c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	until := min(put.At+scenarios.BlockedTime, j.Gone(node))
	var kept []story.Pod
	for _, p := range j.ToLeave(node, put.At) {
		if terminating, ok := p.Terminating(); p.In(c.Pods) && (!ok || terminating.At > until) {
			kept = append(kept, p)
		}
	}
	events := j.All(func(e history.Event) bool {
		return e.Kind == history.ClusterEvent && e.At >= put.At && e.At <= until && !story.KubernetesComponent(e.Owner) && reportsBlock(e, node, kept)
	})
	v.Numbers = map[string]float64{"blocked": float64(len(kept)), "events": float64(len(events))}
	switch {
	case len(kept) == 0:
		return v.unknown(fmt.Sprintf("no %s pod was blocked on %s", c.Pods, node), put)
	case len(events) > c.Max*len(kept):
		return v.fail(fmt.Sprintf("%d events about %d blocked pods", len(events), len(kept)), capped(events)...)
	case j.Unseen(until) != "":
		return v.unknown("bounded: "+j.Unseen(until), put)
	}
	return v.pass(fmt.Sprintf("%d events about %d blocked pods", len(events), len(kept)), capped(append([]history.Event{put}, events...))...)
}
