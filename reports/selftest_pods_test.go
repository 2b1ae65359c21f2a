package reports

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// comes records a new pod of no drill's workload, which is bound to the node.
func (r *recorded) comes(at time.Duration, node string) history.Event {
	p := history.NewPodCreated("default/newcomer", "newcomer", "", history.Owner("ReplicaSet/newcomer-1"))
	r.add(at-10*time.Millisecond, p)
	p = history.NewPodScheduled(p.Pod, p.UID, history.Like(p), history.Node(node))
	r.add(at, p)
	return p
}

// evicted records that a pod is evicted, and gone two seconds later.
func (r *recorded) evicted(at time.Duration, p history.Event) {
	r.add(at, history.NewPodEvicted(p.Pod, p.UID, "EvictionByEvictionAPI", history.Like(p)))
	r.add(at, history.NewPodTerminating(p.Pod, p.UID, history.Like(p)))
	r.add(at+2*time.Second, history.NewPodDeleted(p.Pod, p.UID, history.Like(p)))
}

// marked is the first mark of the first notice's node.
func (r *recorded) marked() history.Event {
	node, put := r.victim()
	mark, _ := r.MarkedAfter(node, put)
	return mark
}

// podSpoilings break what is read from the fate of pods.
func podSpoilings() []spoiling {
	return []spoiling{
		{"drained", "spot-notice-drains-node", "a pod that was in flight when the node was marked is left", func(r *recorded) {
			r.comes(r.marked().At+300*time.Millisecond, r.marked().Node)
		}, verdict.Fail},
		{"blockedReported", "budget-that-blocks", "the handler reports the evictions, and not that they are blocked", func(r *recorded) {
			r.change(history.ClusterEvent, func(e *history.Event) {
				if e.KubernetesReason() == "EvictionBlocked" {
					pod, _, _ := strings.Cut(e.Note, ":")
					*e = history.NewClusterEvent("Node", "Evicting", history.Like(*e), history.Note("Evicting "+pod))
				}
			})
		}, verdict.Fail},
		{"replaced", "replacements-are-ready-elsewhere", "the replacements are evicted as soon as they are Ready", func(r *recorded) {
			_, put := r.victim()
			for _, p := range r.Pods {
				if ready, ok := p.FirstOf(history.PodReady); ok && ready.At > put.At {
					r.evicted(ready.At+time.Second, ready)
				}
			}
			r.longer(time.Minute) // to the notice's deadline and beyond
		}, verdict.Fail},
		{"untouched", "spot-notice-drains-node", "a daemon pod of another node is deleted by the handler", func(r *recorded) {
			e := r.deleted(daemonOn(r.bystander()))
			said := e.At - 10*time.Millisecond
			r.add(r.End-time.Millisecond, history.NewHandlerTook("", e.Pod, history.Action("delete"), history.Said(said)))
			r.add(r.End-time.Millisecond, history.NewAuditRead(""))
		}, verdict.Fail},
		{"noEviction", "karpenter-state-running-is-ignored", "a daemon pod is deleted, and no audit log shows by whom", func(r *recorded) {
			r.deleted(func(p story.Pod) bool { return history.OwnedBy(p.Events, "DaemonSet") })
		}, verdict.Unknown},
		{"untouched", "spot-notice-drains-node", "a taint that is not the handler's own is put on another node when the handler changes it", func(r *recorded) {
			e := r.tainted()
			said := e.At - 10*time.Millisecond
			r.add(r.End-time.Millisecond, history.NewHandlerWrote("", e.Node, "", history.Action("patch"), history.Said(said)))
		}, verdict.Fail},
	}
}

// bystander is a node of the scenario that no notice names.
func (r *recorded) bystander() string {
	node, _ := r.Node("bystander")
	return node
}

// daemonOn selects the daemon pods of a node.
func daemonOn(node string) func(story.Pod) bool {
	return func(p story.Pod) bool { return p.Node() == node && history.OwnedBy(p.Events, "DaemonSet") }
}

// deleted records that the first of the chosen pods is deleted without an eviction, two
// seconds after the steps begin.
func (r *recorded) deleted(chosen func(story.Pod) bool) history.Event {
	p := r.Pods[slices.IndexFunc(r.Pods, chosen)]
	e := history.NewPodTerminating(p.Name(), p.UID(), history.Node(p.Node()))
	e.At = r.Begun + 2*time.Second
	r.add(e.At, e)
	return e
}

// tainted records a network plugin's taint on a node that no notice names, two seconds
// after the steps begin.
func (r *recorded) tainted() history.Event {
	e := history.NewNodeTainted(r.bystander(), "cni.example.com/agent-not-ready", "NoSchedule")
	e.At = r.Begun + 2*time.Second
	r.add(e.At, e)
	return e
}

// harmless changes a recorded drill that passes by something that is no fault of the
// handler's.
type harmless struct {
	drill   string // of the corpus
	happens string // in words
	edit    func(*recorded)
}

func harmlessEdits() []harmless {
	return []harmless{
		{"new-pods-do-not-land-on-the-node", "a pod was in flight when the node was marked, is seen late, and is evicted", func(r *recorded) {
			at := r.marked().At + 700*time.Millisecond
			r.evicted(at+time.Second, r.comes(at, r.marked().Node))
		}},
		{"new-pods-do-not-land-on-the-node", "the pod of a job on the node finishes by itself", func(r *recorded) {
			p := history.NewPodPresent("default/job", "job", "", "Running", history.Owner("Job/job"), history.Node(r.marked().Node))
			r.add(r.Begun-time.Millisecond, p)
			r.add(r.marked().At+2*time.Second, history.NewPodFinished(p.Pod, p.UID, "Succeeded", history.Like(p)))
		}},
		{"new-pods-do-not-land-on-the-node", "a pod on the node tolerates the handler's taint", func(r *recorded) {
			r.add(r.Begun-time.Millisecond, history.NewPodPresent("default/tolerant", "tolerant", "", "Running", history.Owner("ReplicaSet/tolerant-1"), history.Node(r.marked().Node), history.Note(r.Meta.Handler.Taint)))
		}},
		{"budget-that-frees-up", "a pod elsewhere is not Ready for a second, and its budget has no room", func(r *recorded) {
			_, put := r.victim()
			p := r.Pods[slices.IndexFunc(r.Pods, func(p story.Pod) bool { return p.In("app") && p.Node() != put.Node })]
			e := history.NewPodNotReady(p.Name(), p.UID(), history.Node(p.Node()))
			r.add(put.At+time.Second, e)
			e.Kind = history.PodReady
			r.add(put.At+2*time.Second, e)
		}},
		{"spot-notice-drains-node", "a network plugin taints another node", func(r *recorded) { r.tainted() }},
		{"spot-notice-drains-node", "a DaemonSet replaces its pod on another node", func(r *recorded) {
			r.deleted(daemonOn(r.bystander()))
		}},
	}
}

// A recorded drill that passes still does after something that the handler did not do
// and could not prevent.
func TestNoHandlerFailsForWhatItDidNotDo(t *testing.T) {
	for _, x := range harmlessEdits() {
		t.Run(x.drill+": "+x.happens, func(t *testing.T) {
			t.Parallel()
			scenario, h := fromCorpus(t, x.drill)
			if before := recordingOf(t, x.drill).judged(); before.Outcome != verdict.Pass {
				t.Fatalf("the drill is %s before anything happens", before.Outcome)
			}
			r := recorded{story.Read(scenario, h), h}
			r.History.Events = slices.Clone(h.Events)
			x.edit(&r)
			r.History.Events = inOrder(r.History.Events)
			for _, v := range verdict.Judge(scenario, r.numbered()).Verdicts {
				if v.Outcome != verdict.Pass {
					t.Errorf("%s is %s: %s", v.Check, v.Outcome, v.Got)
				}
			}
		})
	}
}

// inOrder sorts events by time and numbers them, as a recorder would have.
func inOrder(events []history.Event) []history.Event {
	slices.SortStableFunc(events, func(a, b history.Event) int { return int(a.At - b.At) })
	for i := range events {
		events[i].Seq = i + 1
	}
	return events
}
