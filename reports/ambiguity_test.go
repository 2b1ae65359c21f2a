package reports

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

const spotDrill = "spot-notice-drains-node"

// renumber sets a figure of an event without changing that of the drill as it was.
func renumber(e *history.Event, name history.Number, value float64) {
	e.Numbers = maps.Clone(e.Numbers)
	e.Numbers[name] = value
}

// marks calls edit for each mark that the victim got.
func (r *recorded) marks(edit func(*history.Event)) {
	node, put := r.victim()
	for _, kind := range []history.Kind{history.NodeCordoned, history.NodeTainted} {
		r.change(kind, func(e *history.Event) {
			if e.Node == node && e.At >= put.At && r.Marking(*e) {
				edit(e)
			}
		})
	}
}

// seenMarkedAfter has the victim's marks seen that long after the notice.
func (r *recorded) seenMarkedAfter(after time.Duration) {
	_, put := r.victim()
	r.marks(func(e *history.Event) { e.At = put.At + after })
}

// ambiguities spoil recorded drills so that what is left looks right at first sight.
func ambiguities() []spoiling {
	return []spoiling{
		{"commitPoint", spotDrill, "the deletion arrives before the mark is requested, and is answered after it", func(r *recorded) {
			wrote := time.Duration(0)
			for _, e := range r.History.Events {
				if e.Kind == history.HandlerWrote && wrote == 0 {
					wrote = *e.Said
				}
			}
			r.change(history.SQSCall, func(e *history.Event) {
				if e.Action == "DeleteMessage" {
					renumber(e, history.Took, (e.At - wrote + 5*time.Millisecond).Seconds())
				}
			})
		}, verdict.Fail},
		{"marked", spotDrill, "the only mark is a taint that the scheduler may ignore", func(r *recorded) {
			node, _ := r.victim()
			r.drop(func(e history.Event) bool { return e.Kind == history.NodeCordoned && e.Node == node })
			r.marks(func(e *history.Event) {
				if e.Kind == history.NodeTainted {
					*e = history.NewNodeTainted(e.Node, e.Setting().Key, "PreferNoSchedule", history.Like(*e))
				}
			})
		}, verdict.Fail},
		{"marked", spotDrill, "the node was marked for a rebalance recommendation, before the notice", func(r *recorded) {
			node, put := r.victim()
			mark, _ := r.MarkedAfter(node, put)
			r.change(history.NoticePut, func(e *history.Event) { e.At = mark.At + time.Second })
			r.add(put.At, history.NewNoticePut("advice", history.RebalanceRecommendation, node))
		}, verdict.Unknown},
		{"noMessageLost", spotDrill, "a notice vanishes, and a copy of another is left in its place", func(r *recorded) {
			node, put := r.victim()
			r.add(put.At+time.Second, history.NewNoticePut(put.Step(), "", node, history.Notice("vanished")))
			r.add(put.At+2*time.Second, history.NewSQSReceived("", "copy", put.Notice))
			r.change(history.QueueDepth, func(e *history.Event) { renumber(e, history.Visible, 1) })
		}, verdict.Fail},
		{"nodeEvent", "rebalance-event", "the only event on the node is an add-on's, about something else", func(r *recorded) {
			r.change(history.ClusterEvent, func(e *history.Event) {
				if e.About("Node") && !story.KubernetesComponent(e.Owner) {
					*e = history.NewClusterEvent("Node", "NodeHasNoGPU", history.Like(*e), history.Owner("gpu-operator"), history.Note("no GPU found"))
				}
			})
		}, verdict.Unknown},
		{"leastPrivilege", spotDrill, "the queue that it reads is another account's", func(r *recorded) {
			r.Meta.Environment = maps.Clone(r.Meta.Environment)
			r.Meta.Environment["account"] = "000000000000"
			r.change(history.SQSCall, func(e *history.Event) { e.Account = "111111111111" })
		}, verdict.Fail},
		{"leastPrivilege", spotDrill, "it may read every secret", func(r *recorded) {
			r.add(r.Begun, history.NewRBACRule("ClusterRole spotdrill-handler", "get,list", "/secrets"))
		}, verdict.Fail},
	}
}

// excuse changes a recorded drill that passes so that a check sees something unusual that
// a correct handler may do, or that is not its doing.
type excuse struct {
	check   verdict.ID
	drill   string // of the corpus
	happens string // what is unusual, in words
	edit    func(*recorded)
	want    verdict.Outcome
}

func excuses() []excuse {
	lostFor := func(r *recorded, from, to time.Duration) {
		_, put := r.victim()
		r.add(put.At+from, history.NewWatchLost("nodes"))
		r.add(put.At+to, history.NewWatchBack("nodes"))
	}
	return []excuse{
		{"leastPrivilege", spotDrill, "messages are deleted in batches", func(r *recorded) {
			r.change(history.SQSCall, func(e *history.Event) {
				if e.Action == "DeleteMessage" {
					e.Action = "DeleteMessageBatch"
				}
			})
		}, verdict.Pass},
		{"marked", spotDrill, "the message came six seconds after the notice, to a poll that was open all the time", func(r *recorded) {
			r.change(history.NoticePut, func(e *history.Event) { e.At -= 6 * time.Second })
		}, verdict.Pass},
		{"marked", spotDrill, "the mark was seen late, and the audit log has it in time", func(r *recorded) { r.seenMarkedAfter(5300 * time.Millisecond) }, verdict.Pass},
		{"marked", spotDrill, "the mark was seen a little late, and no audit log has it", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.HandlerWrote })
			r.seenMarkedAfter(5300 * time.Millisecond)
		}, verdict.Unknown},
		{"marked", spotDrill, "the mark was seen when a lost watch was back, and no audit log has it", func(r *recorded) {
			r.drop(func(e history.Event) bool { return e.Kind == history.HandlerWrote })
			lostFor(r, time.Second, 8*time.Second)
			r.seenMarkedAfter(8100 * time.Millisecond)
		}, verdict.Unknown},
		{"drainedOnce", "killed-handler-finishes-the-drain", "after it was killed, it announces that it resumes the drain as it announces a drain", func(r *recorded) {
			r.change(history.ClusterEvent, func(e *history.Event) {
				if e.KubernetesReason() == "DrainResumed" {
					*e = history.NewClusterEvent("Node", "Draining", history.Like(*e))
				}
			})
		}, verdict.Pass},
	}
}

// In a recorded drill that passes, something unusual happens, and the check does not fail.
func TestNoCorrectHandlerFails(t *testing.T) {
	for _, x := range slices.Concat(excuses(), noiseExcused()) {
		t.Run(string(x.check)+": "+x.happens, func(t *testing.T) {
			t.Parallel()
			scenario, h := fromCorpus(t, x.drill)
			r := recorded{story.Read(scenario, h), h}
			r.History.Events = slices.Clone(h.Events)
			x.edit(&r)
			if slices.EqualFunc(r.History.Events, h.Events, func(a, b history.Event) bool {
				return a.At == b.At && a.Kind == b.Kind && slices.Equal(a.Words(), b.Words())
			}) {
				t.Fatal("nothing was changed")
			}
			if got := outcomeOf(t, verdict.Judge(scenario, r.numbered()), x.check); got != x.want {
				t.Errorf("%s is %s, want %s", x.check, got, x.want)
			}
		})
	}
}
