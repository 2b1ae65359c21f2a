package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

var checkDisruptedAtOnce = check{
	Kind: Kind{
		ID: "disruptedAtOnce", Title: "nodes removed at once for %s",
		Requires: "The handler never removes more nodes at the same time without a notice than its budget allows; a node counts from its mark, or its first pod that has to leave, until its instance is terminated.",
		Fix:      "count the nodes that are marked or being deleted against the budget before another one is marked",
		Look:     Look{Lane: LaneNode, Text: "the lanes of the nodes: which was marked while another was still being removed? Then handler.log"},
	},
	judge: by(disruptedAtOnce),
}

func disruptedAtOnce(j judge, v Verdict, c scenarios.DisruptedAtOnce) Verdict {
	v = v.wants(fmt.Sprintf("at most %d nodes being removed at the same time", c.Max), c.Of)
	all := j.Removals(c.Of)
	var most []history.Event // that began the removals which were under way at the same time
	for _, r := range all {
		var now []history.Event
		for _, o := range all {
			if o.Begun.Seq == r.Begun.Seq || o.Begun.At <= r.Begun.At && r.Begun.At < o.Until {
				now = append(now, o.Begun)
			}
		}
		if len(now) > len(most) {
			most = now
		}
	}
	v.Numbers = map[string]float64{"removed": float64(len(all)), "at_once": float64(len(most))}
	switch {
	case len(most) > c.Max:
		return v.fail(fmt.Sprintf("%d nodes were being removed at the same time", len(most)), capped(most)...)
	case j.Unseen(j.End) != "":
		return v.unknown("no more at once: " + j.Unseen(j.End))
	case len(all) <= c.Max:
		return v.unknown(fmt.Sprintf("only %d nodes were removed, so that no more were at the same time proves nothing", len(all)))
	}
	return v.pass(fmt.Sprintf("%d nodes were removed, never more than %d at the same time", len(all), len(most)), capped(most)...)
}

var checkDaemonSetRuns = check{
	Kind: Kind{
		ID: "daemonSetRuns", Title: "DaemonSet %s runs",
		Requires: "A DaemonSet whose pods did not fit on the nodes runs on every launched node when these have been replaced, within a time of the configuration that calls for it.",
		Fix:      "count the DaemonSets of the cluster, as they are now, in the size of every node that is launched",
		Look:     Look{Lane: LanePods, Text: "the lanes Handler and Pods: what the scheduler reported of the pending pods, and which node has none that is Ready"},
	},
	judge: by(daemonSetRuns),
}

func daemonSetRuns(j judge, v Verdict, c scenarios.DaemonSetRuns) Verdict {
	v = v.wants(fmt.Sprintf("a Ready pod on every launched node within %s of %q", c.Within.D(), c.Of), c.Name)
	cause, ok := j.First(func(e history.Event) bool { return story.RemovedFor(e, c.Of) })
	if !ok {
		return v.unknown(fmt.Sprintf("%q never called for a removal", c.Of))
	}
	pods := slices.DeleteFunc(slices.Clone(j.Pods), func(p story.Pod) bool { return p.Controller() != "DaemonSet/"+c.Name })
	pending, said := j.pending(pods, cause.At)
	if len(pending) == 0 {
		return v.unknown("none of its pods was pending when the nodes were to be replaced, so that they run later proves nothing", cause)
	}
	limit := cause.At + c.Within.D()
	done, missing := cause, j.withoutPod(pods, cause, min(limit, j.Observed))
	if len(missing) == 0 {
		for _, p := range pods {
			if ready, ok := p.ReadyAt(min(limit, j.Observed)); ok && ready.At > done.At {
				done = ready
			}
		}
		v.Numbers = map[string]float64{"pending": float64(len(pending)), "runs_seconds": (done.At - cause.At).Seconds()}
		return v.pass(fmt.Sprintf("%d were pending (%s), and all ran after %s", len(pending), said.Note, history.Seconds(done.At-cause.At)), known(said, cause, done)...)
	}
	if why := j.Unseen(limit); why != "" {
		return v.unknown("does not run everywhere: "+why, cause)
	}
	return v.fail("no Ready pod on "+strings.Join(missing, ", "), known(said, cause)...)
}

// pending are the pods that were bound to no node at that time, and what the scheduler reported of
// one of them before.
func (j judge) pending(pods []story.Pod, at time.Duration) (out []story.Pod, said history.Event) {
	for _, p := range pods {
		bound, ok := p.FirstOf(history.PodScheduled)
		if p.Since() > at || p.Node() != "" && !ok || ok && bound.At <= at {
			continue
		}
		out = append(out, p)
		words, ok := j.First(func(e history.Event) bool {
			return e.Kind == history.ClusterEvent && e.KubernetesReason() == "FailedScheduling" && e.Pod == p.Name() && e.At <= at
		})
		if ok && said.Kind == "" {
			said = words
		}
	}
	return out, said
}

// withoutPod are the nodes that lack a Ready one of these pods at that time: those that were to
// be replaced and are still there, and the launched ones.
func (j judge) withoutPod(pods []story.Pod, cause history.Event, at time.Duration) (missing []string) {
	there := map[string]bool{}
	for _, e := range j.Events {
		switch {
		case e.At > at:
		case story.RemovedFor(e, cause.Step()), e.Kind == history.InstanceJoined:
			there[e.Node] = true
		case e.Kind == history.NodeDeleted && e.At >= cause.At:
			delete(there, e.Node)
		}
	}
	for _, p := range pods {
		if ready, ok := p.ReadyAt(at); ok {
			delete(there, ready.Node)
		}
	}
	for node := range there {
		missing = append(missing, node)
	}
	slices.Sort(missing)
	return missing
}

var checkForgotten = check{
	Kind: Kind{
		ID: "forgotten", Title: "%s forgotten",
		Requires: "When an instance is taken in the middle of its drain, its Node object is deleted within a time of that: nothing waits for pods that have ended with it.",
		Fix:      "look up in EC2 whether the instance of a NotReady node exists, and release the node at once if it does not",
		Look:     Look{Lane: LaneNode, Text: "the lanes of the node and of its pods: what was still there when the Node object was deleted? Then handler.log"},
	},
	judge: by(forgotten),
}

func forgotten(j judge, v Verdict, c scenarios.Forgotten) Verdict {
	v = v.wants(fmt.Sprintf("its Node object deleted within %s of the end of its instance", c.Within.D()), c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	taken, ok := j.Reclaimed(node)
	if !ok {
		return v.unknown("the instance of " + node + " was not taken")
	}
	left := j.ToLeave(node, taken.At)
	if len(left) == 0 {
		return v.unknown(node+" was already drained when its instance was taken", taken)
	}
	limit := taken.At + c.Within.D()
	deleted, ok := j.DeletedAfter(node, taken.At)
	switch {
	case ok && deleted.At <= limit:
		v.Numbers = map[string]float64{"forgotten_seconds": (deleted.At - taken.At).Seconds()}
		return v.pass(fmt.Sprintf("%s gone after %s; %d pods were left on it", node, history.Seconds(deleted.At-taken.At), len(left)), taken, deleted)
	case !ok && j.Unseen(limit) != "":
		return v.unknown("still there: "+j.Unseen(limit), taken)
	}
	return v.fail(fmt.Sprintf("%s still there after %s", node, c.Within.D()), taken)
}

var checkTerminated = check{
	Kind: Kind{
		ID: "terminated", Title: "instances of %s terminated",
		Requires: "The handler terminates every instance that a notice names and that never became a node, within a time of the notice.",
		Fix:      "find the launch by the id of its instance, also before it has a Node, and give it up as if its node had been named",
		Look:     Look{Lane: LaneNode, Text: "the lane Handler: the notice's message, and which calls followed; then handler.log"},
	},
	judge: by(terminated),
}

func terminated(j judge, v Verdict, c scenarios.Terminated) Verdict {
	v = v.wants(fmt.Sprintf("every instance without a node terminated within %s", c.Within.D()), c.Notice)
	named, last := 0, history.Event{}
	for _, put := range j.AllOf(history.NoticePut) {
		if put.Step() != c.Notice {
			continue
		}
		joined, ok := j.First(func(e history.Event) bool { return e.Kind == history.InstanceJoined && e.Instance == put.Instance })
		if ok {
			return v.unknown(fmt.Sprintf("instance %s became node %s", put.Instance, joined.Node), put, joined)
		}
		limit := put.At + c.Within.D()
		ended, ok := j.First(func(e history.Event) bool {
			return e.Kind == history.InstanceEnded && e.Instance == put.Instance && e.At >= put.At
		})
		switch {
		case !ok && j.Unseen(limit) != "":
			return v.unknown(fmt.Sprintf("instance %s runs: %s", put.Instance, j.Unseen(limit)), put)
		case !ok || ended.At > limit:
			return v.fail(fmt.Sprintf("instance %s still runs after %s", put.Instance, c.Within.D()), put)
		}
		named, last = named+1, ended
		v.Numbers = map[string]float64{"terminated_seconds": (ended.At - put.At).Seconds()}
	}
	if named == 0 {
		return v.unknown(fmt.Sprintf("notice %q was never sent", c.Notice))
	}
	return v.pass(fmt.Sprintf("%d terminated", named), last)
}

var checkPodReported = check{
	Kind: Kind{
		ID: "podReported", Title: "pending pod reported after %s",
		Requires: "The handler reports, in an event about a pod that finds no node, what the pod requests and no instance type that it may launch has.",
		Fix:      "publish an event on the pod that names the request that no instance type meets",
		Look:     Look{Lane: LaneHandler, Text: "the lane Handler: what the handler reported about the pod, and when"},
	},
	judge: by(podReported),
}

func podReported(j judge, v Verdict, c scenarios.PodReported) Verdict {
	v = v.wants(fmt.Sprintf("an event of the handler on a pod that names %s, within %s", c.Says, c.Within.D()), c.Notice)
	put, ok := j.First(func(e history.Event) bool { return e.Kind == history.NoticePut && e.Step() == c.Notice })
	if !ok {
		return v.unknown(fmt.Sprintf("notice %q was never sent", c.Notice))
	}
	limit := put.At + c.Within.D()
	report, ok := j.First(func(e history.Event) bool {
		return e.About("Pod") && e.At >= put.At && e.At <= limit &&
			!story.KubernetesComponent(e.Owner) && strings.Contains(e.Note, c.Says)
	})
	switch {
	case ok:
		v.Numbers = map[string]float64{"reported_seconds": (report.At - put.At).Seconds()}
		return v.pass(fmt.Sprintf("%s by %s after %s: %s", report.KubernetesReason(), report.Owner, history.Seconds(report.At-put.At), report.Note), put, report)
	case j.Unseen(limit) != "":
		return v.unknown("no event: "+j.Unseen(limit), put)
	}
	return v.fail("no event of the handler on a pod names it", put)
}
