package reports

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// spoiling breaks what one check watches, in a recorded drill that passes.
type spoiling struct {
	check  verdict.ID
	drill  string // of the corpus
	breaks string // what is broken, in words
	edit   func(*recorded)
	want   verdict.Outcome
}

// recorded is a drill of the corpus that may be edited.
type recorded struct {
	*story.Story // as it was
	history.History
}

// add puts an event into the history.
func (r *recorded) add(at time.Duration, e history.Event) {
	e.At = at
	r.History.Events = append(r.History.Events, e)
}

// numbered is the history with its events in order, without a hole in their numbers.
func (r *recorded) numbered() history.History {
	slices.SortStableFunc(r.History.Events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range r.History.Events {
		r.History.Events[i].Seq = i + 1
	}
	return r.History
}

// drop removes the events that chosen accepts.
func (r *recorded) drop(chosen func(history.Event) bool) {
	r.History.Events = slices.DeleteFunc(r.History.Events, chosen)
}

// change edits the events of a kind.
func (r *recorded) change(kind history.Kind, edit func(*history.Event)) {
	for i := range r.History.Events {
		if r.History.Events[i].Kind == kind {
			e := &r.History.Events[i]
			e.Numbers = maps.Clone(e.Numbers) // other tests read them
			edit(e)
		}
	}
}

// longer extends the recording by that long.
func (r *recorded) longer(by time.Duration) {
	for i := range r.History.Events {
		if e := &r.History.Events[i]; e.At >= r.End {
			e.At += by
		}
	}
}

// victim is the node of the first notice, and when it was put.
func (r *recorded) victim() (node string, put history.Event) {
	put, _ = r.FirstOf(history.NoticePut)
	return put.Node, put
}

// lose makes every nth query time out that was sent to a target in this interval.
func (r *recorded) lose(target string, n int, from, to time.Duration) {
	seen := 0
	for i := range r.Queries {
		q := &r.Queries[i]
		if q.Target != target || q.Intended < from || q.Intended > to {
			continue
		}
		seen++
		if seen%n == 0 {
			q.Outcome, q.Done = history.Timeout, q.Sent+2*time.Second
		}
	}
}

func spoilings() []spoiling {
	always := time.Hour
	return append(podSpoilings(), []spoiling{
		{"settled", "observed-rollout", "the last CoreDNS pod of a rollout is still in lameduck", func(r *recorded) {
			last := 0
			for i, e := range r.History.Events {
				if e.Kind == history.EndpointGone {
					last = i
				}
			}
			r.History.Events = slices.Delete(r.History.Events, last, last+1)
		}, verdict.Unknown},
		{"dnsAnswered", "observed-rollout", "every tenth query is lost", func(r *recorded) {
			r.lose(history.Service, 10, r.Begun, r.End)
		}, verdict.Fail},
		{"dnsAnswered", "observed-rollout", "a prober dies in the middle, and its node stays", func(r *recorded) {
			dies := r.Begun + time.Second
			of := r.Queries[0].Node
			r.Queries = slices.DeleteFunc(r.Queries, func(q history.Query) bool { return q.Node == of && q.Intended > dies })
			r.drop(func(e history.Event) bool { return e.Kind == history.ProberEnded && e.Node == of })
			r.add(dies, history.NewProberBroke(of, "its record broke off"))
		}, verdict.Unknown},
		{"baseline", "observed-rollout", "DNS is broken before anything began", func(r *recorded) {
			r.lose(history.Service, 5, r.Begun-time.Second, r.Begun)
		}, verdict.Unknown},
		{"podsLeft", "unhealthy-pod-stays", "a pod that must stay is evicted", func(r *recorded) {
			_, put := r.victim()
			for _, p := range r.Pods {
				if p.In("unready") {
					r.add(put.At+time.Second, history.NewPodEvicted(p.Name(), p.UID(), "EvictionByEvictionAPI", history.Node(p.Node())))
				}
			}
		}, verdict.Fail},
		{"noEviction", "dns-lost-with-the-node", "a pod is evicted", func(r *recorded) {
			p := r.Pods[0]
			r.add(r.Begun+time.Second, history.NewPodEvicted(p.Name(), p.UID(), "EvictionByEvictionAPI", history.Node(p.Node())))
		}, verdict.Fail},
		{"notScheduled", "new-pods-do-not-land-on-the-node", "pods are bound to the node that is drained", func(r *recorded) {
			node, put := r.victim()
			mark, _ := r.MarkedAfter(node, put)
			r.change(history.PodScheduled, func(e *history.Event) {
				if e.At > mark.At+time.Second {
					e.Node = node
				}
			})
		}, verdict.Fail},
		{"replaced", "replacements-are-ready-elsewhere", "the replacements never become Ready", func(r *recorded) {
			_, put := r.victim()
			r.drop(func(e history.Event) bool { return e.Kind == history.PodReady && e.At > put.At })
			r.longer(time.Minute) // to the notice's deadline and beyond
		}, verdict.Fail},
		{"replacedFirst", "karpenter-drifted-nodes-are-replaced-first", "no launched node is Ready", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.NodeReady && e.At > r.Begun })
		}, verdict.Fail},
		{"removed", "karpenter-drifted-nodes-are-replaced-first", "instances are terminated before their pods are gone", func(r *recorded) {
			r.change(history.InstanceEnded, func(e *history.Event) { e.At = r.Begun + time.Second })
		}, verdict.Fail},
		{"disruptedAtOnce", "karpenter-drifted-nodes-are-replaced-first", "the instance of the first node is never terminated", func(r *recorded) {
			node := r.AllOf(history.InstanceEnded)[0].Node
			r.drop(func(e history.Event) bool {
				return e.Node == node && (e.Kind == history.InstanceEnded || e.Kind == history.NodeDeleted)
			})
		}, verdict.Fail},
		{"daemonSetRuns", "karpenter-daemon-set-without-room-runs-after-a-replacement", "its pods are never Ready on the replacements", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.PodReady && e.Owner == "DaemonSet/agent" })
		}, verdict.Fail},
		{"forgotten", "karpenter-instance-lost-in-the-middle-of-a-drain-is-forgotten", "the Node object stays", func(r *recorded) {
			node, _ := r.victim()
			r.drop(func(e history.Event) bool { return e.Kind == history.NodeDeleted && e.Node == node })
			r.longer(time.Minute)
		}, verdict.Fail},
		{"terminated", "karpenter-notice-gives-a-launch-without-a-node-up", "the instance without a node runs on", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.InstanceEnded && e.Node == "" })
		}, verdict.Fail},
		{"podReported", "karpenter-pod-that-no-instance-type-can-run-is-reported", "no event names the resource", func(r *recorded) {
			r.drop(func(e history.Event) bool {
				return e.Kind == history.ClusterEvent && strings.Contains(e.Note, "pod-eni")
			})
		}, verdict.Fail},
		{"notStalled", "deaf-pod-stalls-no-other", "the other pods terminate only when the slow ones are gone", func(r *recorded) {
			node, put := r.victim()
			for _, p := range r.ToLeave(node, put.At) {
				if stopped, ok := p.Stopped(); ok && p.In("deaf") {
					r.change(history.PodTerminating, func(e *history.Event) {
						if e.Node == node && e.UID != p.UID() {
							e.At = max(e.At, stopped.At+2*time.Second)
						}
					})
				}
			}
		}, verdict.Fail},
		{"oneDrainPerCause", "two-instances-in-one-event", "the node is marked a second time", func(r *recorded) {
			node, put := r.victim()
			mark, _ := r.MarkedAfter(node, put)
			r.add(mark.At+time.Second, mark)
		}, verdict.Fail},
		{"queueEmpty", "message-that-is-no-json", "a message is left in the queue", func(r *recorded) {
			r.change(history.QueueDepth, func(e *history.Event) { e.Numbers[history.Visible] = 1 })
		}, verdict.Fail},
		{"noMessageLost", "message-that-is-no-json", "a message disappears without a deletion", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.SQSDeleted })
		}, verdict.Fail},
		{verdict.IDOfDNSLost, "spot-notice-drains-node", "queries are lost", func(r *recorded) {
			_, put := r.victim()
			r.lose(history.Service, 3, put.At+time.Second, put.At+4*time.Second)
		}, verdict.Fail},
		{"dnsWindow", "dns-lost-without-lameduck", "no query is lost", func(r *recorded) {
			for i := range r.Queries {
				if q := &r.Queries[i]; q.Outcome.Lost() {
					q.Outcome, q.Done = history.Answered, q.Sent+time.Millisecond
				}
			}
		}, verdict.Fail},
		{"applicationLost", "application-drained-with-pre-stop", "one request of twenty is not answered", func(r *recorded) {
			r.lose(history.Application, 20, r.Begun+time.Second, always)
		}, verdict.Fail},
		{"applicationWindow", "application-drained-without-pre-stop", "no request is answered for six seconds", func(r *recorded) {
			r.lose(history.Application, 1, r.Begun+time.Second, r.Begun+7*time.Second)
		}, verdict.Fail},
		{"addOnUpgraded", "add-on-upgrade-overwrites-lameduck", "the upgrade is refused", func(r *recorded) {
			r.change(history.AddOnUpgraded, func(e *history.Event) { e.Kind, e.Note = history.AddOnRefused, "conflicts" })
		}, verdict.Fail},
		{"endpointLeft", "dns-lost-with-the-node", "the endpoint goes as soon as the node does", func(r *recorded) {
			taken, _ := r.FirstOf(history.Reclaimed)
			r.change(history.EndpointReady, func(e *history.Event) {
				if p := r.PodAt(e.IP); p != nil && p.Node() == taken.Node {
					gone := *e
					gone.Kind = history.EndpointGone
					r.add(taken.At+time.Second, gone)
				}
			})
		}, verdict.Fail},
		{"midDrain", "killed-handler-finishes-the-drain", "the handler is killed before the drain begins", func(r *recorded) {
			r.change(history.HandlerDisturbed, func(e *history.Event) { e.At = r.Begun })
		}, verdict.Unknown},
		{"faultsInjected", "lost-delete-answer", "the fault hits no call", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.FaultHit })
		}, verdict.Unknown},
		{"recordingComplete", "spot-notice-drains-node", "an event is missing", func(r *recorded) {
			r.History.Events = slices.Delete(r.History.Events, 10, 11)
		}, verdict.Unknown},
		{"harness", "spot-notice-drains-node", "the harness reports an error", func(r *recorded) {
			r.add(r.Last, history.NewRunError("the disk is full"))
		}, verdict.Unknown},
		{"restored", "spot-notice-drains-node", "the cluster was not restored", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.Restored })
		}, verdict.Unknown},
		{"handlersAgree", "two-handlers-on-one-queue", "the other handler evicts a pod as well", func(r *recorded) {
			acted := map[string]bool{}
			var took history.Event
			for _, e := range r.History.Events {
				if e.Kind == history.HandlerTook {
					took = e
				}
				if e.Kind == history.HandlerTook || e.Kind == history.HandlerWrote {
					acted[e.By] = true
				}
			}
			other := map[bool]string{true: history.OtherHandler, false: ""}
			took.By = other[acted[""]]
			r.add(took.At, took)
		}, verdict.Fail},
		{"leadGained", "second-handler-drains-at-the-rebalance-recommendation", "the second handler does nothing", func(r *recorded) {
			r.drop(func(e history.Event) bool {
				return e.By == history.OtherHandler && (e.Kind == history.HandlerTook || e.Kind == history.HandlerWrote)
			})
		}, verdict.Fail},
		{"lossesExplained", "dns-lost-with-the-node", "no flow is on record", func(r *recorded) { r.Flows = nil }, verdict.Unknown},
		{"lossesExplained", "vpc-cni-upgrade-cuts-pods-off", "nothing reports that the upgrade began", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.AddOnUpgrading })
		}, verdict.Unknown},
		{"control", "dns-answers-throughout", "the control loses queries", func(r *recorded) { r.lose(history.Control, 20, 0, always) }, verdict.Unknown},
		{"prober", "dns-answers-throughout", "the prober sends its queries late", func(r *recorded) {
			r.change(history.ProberEnded, func(e *history.Event) { e.Numbers[history.LateP99] = 1 })
		}, verdict.Unknown},
		{"baseline", "dns-answers-throughout", "queries are lost before the notice", func(r *recorded) {
			_, put := r.victim()
			r.lose(history.Service, 2, put.At-500*time.Millisecond, put.At)
		}, verdict.Unknown},
	}...)
}

// In a recorded drill that passes, what a check watches is broken, and the check fails.
func TestEachSpoiledDrillIsFound(t *testing.T) {
	for _, s := range slices.Concat(spoilings(), ambiguities(), noises()) {
		t.Run(string(s.check)+": "+s.breaks, func(t *testing.T) {
			t.Parallel()
			scenario, h := fromCorpus(t, s.drill)
			r := recorded{story.Read(scenario, h), h}
			r.History.Events = slices.Clone(h.Events)
			before := recordingOf(t, s.drill).judged().Result
			if s.check == "settled" { // the drill was recorded by a version that did not watch rollouts, and 3 s too short
				r.add(r.Begun, history.NewRolloutComplete("Deployment/kube-system/coredns"))
				r.longer(3 * time.Second)
				before = verdict.Judge(scenario, r.numbered())
			}
			if before := outcomeOf(t, before, s.check); before != verdict.Pass {
				t.Fatalf("%s is %s before anything is broken", s.check, before)
			}
			s.edit(&r)
			if got := verdict.Judge(scenario, r.numbered()); outcomeOf(t, got, s.check) != s.want || got.Outcome == verdict.Pass {
				t.Errorf("%s is %s, want %s; the drill is %s", s.check, outcomeOf(t, got, s.check), s.want, got.Outcome)
			}
		})
	}
}

// outcomeOf is the worst outcome of a drill's checks of that kind.
func outcomeOf(t *testing.T, r verdict.Result, id verdict.ID) verdict.Outcome {
	t.Helper()
	var found []verdict.Outcome
	for _, v := range r.Verdicts {
		if v.ID == id {
			found = append(found, v.Outcome)
		}
	}
	for _, worst := range []verdict.Outcome{verdict.Fail, verdict.Unknown, verdict.Pass} {
		if slices.Contains(found, worst) {
			return worst
		}
	}
	t.Fatalf("%s has no check %s", r.Scenario, id)
	return ""
}

// fromCorpus is a recorded drill whose lists may be edited.
func fromCorpus(t *testing.T, name string) (scenarios.Scenario, history.History) {
	t.Helper()
	r := recordingOf(t, name)
	h := r.history
	h.Events, h.Queries, h.Flows = slices.Clone(h.Events), slices.Clone(h.Queries), slices.Clone(h.Flows)
	return r.scenario, h
}

// For each check there is something that it finds: a planted defect of the built-in
// handler, or a spoiled recording.
func TestEveryCheckFindsSomething(t *testing.T) {
	finds := map[verdict.ID]bool{}
	for _, s := range spoilings() {
		finds[s.check] = true
	}
	data, err := os.ReadFile("../suites/mutants/mutants.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Mutants []struct {
			CaughtBy struct{ Check verdict.ID } `yaml:"caughtBy"`
		}
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, m := range doc.Mutants {
		finds[m.CaughtBy.Check] = true
	}
	var never []string
	for _, k := range verdict.Kinds() {
		for _, id := range k.IDs() {
			// Those found elsewhere have tests of their own.
			if k.Judges != verdict.Elsewhere && !finds[id] {
				never = append(never, string(id))
			}
		}
	}
	if len(never) > 0 {
		t.Errorf("no planted defect and no spoiled drill is found by %s", strings.Join(never, ", "))
	}
}

// A drill of our own whose record ends while a pod of CoreDNS terminates is unknown, and names it.
func TestADrillThatEndedTooEarlyIsUnknown(t *testing.T) {
	for _, drill := range []string{"add-on-upgrade-overwrites-lameduck", "no-endpoint", "karpenter-drifted-nodes-are-replaced-first"} {
		scenario, h := fromCorpus(t, drill)
		r := recorded{story.Read(scenario, h), h}
		serves := map[string]bool{}
		for _, e := range r.AllOf(history.EndpointReady) {
			serves[e.Pod] = serves[e.Pod] || e.Service() == ""
		}
		var ends string // the last pod of CoreDNS that did
		for _, e := range r.AllOf(history.PodTerminating) {
			if _, reclaimed := r.Reclaimed(e.Node); serves[e.Pod] && !reclaimed && e.At > r.Begun {
				ends = e.Pod
			}
		}
		r.History.Events = slices.Clone(h.Events)
		r.drop(func(e history.Event) bool {
			return e.Pod == ends && (e.Kind == history.PodExited || e.Kind == history.PodDeleted || e.Kind == history.EndpointGone)
		})
		got := verdict.Judge(scenario, r.numbered())
		i := slices.IndexFunc(got.Verdicts, func(v verdict.Verdict) bool { return v.ID == "settled" })
		if ends == "" || i < 0 || got.Verdicts[i].Outcome != verdict.Unknown || !strings.Contains(got.Verdicts[i].Got, ends) || got.Outcome == verdict.Pass {
			t.Errorf("%s, %q: outcome %s, verdict %d", drill, ends, got.Outcome, i)
		}
	}
}
