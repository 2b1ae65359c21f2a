package loss

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// What connection tracking itself lost is reported, and counts if the check does not
// except it.
func TestWhatConnectionTrackingLostMayNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		except bool
		more   float64 // when another query is sent that gets no answer; 0 for none
		want   int
	}{
		"they count":  {want: 1},
		"they do not": {except: true},
		"others do":   {except: true, more: 14.5, want: 1},
	} {
		s := lossStory()
		s.flow(3, staying, 5, 11.01)
		s.sent(history.Fixed, 3, 11, history.Timeout)
		if c.more > 0 {
			s.sent(history.Fixed, 2, c.more, history.Timeout)
		}
		a := s.attribute()
		counted := &a.measured
		if c.except {
			counted = a.Without(EntryRemoved, InsertFailed)
		}
		if counted.Fixed.Lost != c.want {
			t.Errorf("%s: %d lost, want %d", name, counted.Fixed.Lost, c.want)
		}
	}
}

// A busy machine has more queries under way, and kube-proxy removes the entries of a pod that
// leaves. It must not remove those of one that serves, however busy the machine is.
func TestTheEntryOfAPodThatServesIsNotRemovedByABusyMachine(t *testing.T) {
	for name, c := range map[string]struct {
		leaves float64 // when the pod's endpoint is terminating; 0 for never
		want   int
	}{
		"the pod serves":              {want: 1},
		"the pod leaves long after":   {leaves: 12, want: 1},
		"the pod leaves just after":   {leaves: 11.3},
		"the pod was leaving already": {leaves: 10.5},
	} {
		s := lossStory()
		s.flow(3, staying, 5, 11.01)
		s.sent(history.Fixed, 3, 11, history.Timeout)
		s.queries = append(s.queries, history.Query{Target: history.Control, Mode: history.Fresh, Intended: sec(11), Sent: sec(11), Done: sec(11.2), Outcome: history.Answered})
		if c.leaves > 0 {
			s.at(c.leaves, history.NewEndpointTerminating("", "", staying, false))
		}
		a := s.attribute()
		if got := a.Steady(a.measured.Streams("all")).Lost(); got != c.want {
			t.Errorf("%s: %d lost surely by the cluster, want %d", name, got, c.want)
		}
	}
}

func TestCauses(t *testing.T) {
	exit := func(s *script) { s.ended(history.PodExited, 10.4) }
	endpointsGone := func(s *script) {
		for _, ip := range []string{ending, staying} {
			s.at(9, history.NewEndpointGone("", "", ip))
		}
	}
	for name, c := range map[string]struct {
		play func(*script)
		want Loss // without the times of the queries
	}{
		"the pod is behind: an earlier query still waits there": {
			func(s *script) {
				s.waited(2, 12, 400*time.Millisecond)
				s.sent(history.Fixed, 2, 12.3, history.Timeout)
			},
			Loss{Cause: BackendBehind, Fixed: 1, Backend: staying, Waited: 400},
		},
		"the pod has caught up": {
			func(s *script) {
				s.waited(2, 12, 400*time.Millisecond)
				s.sent(history.Fixed, 2, 12.5, history.Timeout)
			},
			Loss{Cause: Unexplained, Fixed: 1, Backend: staying},
		},
		"another pod is behind": {
			func(s *script) {
				s.waited(1, 9, 400*time.Millisecond)
				s.sent(history.Fixed, 2, 9.3, history.Timeout)
			},
			Loss{Cause: Unexplained, Fixed: 1, Backend: staying},
		},
		"a used port's entry leads to a pod that exited": {
			func(s *script) { exit(s); s.sent(history.Fixed, 1, 12.5, history.Timeout) },
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending, Lag: 2500},
		},
		"the recorder heard late that the entry was removed": {
			func(s *script) {
				exit(s)
				s.flow(1, staying, 16, 0)
				s.sent(history.Fixed, 1, 15.5, history.Timeout)
				s.sent(history.Fixed, 1, 15.9, history.Answered)
			},
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending, Lag: 5500},
		},
		"a connection that is kept": {
			func(s *script) {
				exit(s)
				s.sent(history.Kept, 1, 12.5, history.Timeout)
			},
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending, Lag: 2500},
		},
		"the same port on another prober's node is another one": {
			func(s *script) {
				exit(s)
				s.flows = append(s.flows, history.Flow{Node: "other", Port: 1, Backend: staying, From: sec(3)})
				s.sent(history.Fixed, 1, 12.5, history.Timeout)
				s.sent(history.Fixed, 1, 12.6, history.Answered)
				s.queries[len(s.queries)-1].Node = "other"
			},
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending, Lag: 2500},
		},
		"a port is used again after the exit": {
			func(s *script) { exit(s); s.sent(history.Fresh, 1, 11, history.ICMP) },
			Loss{Cause: OldEntry, Fresh: 1, Backend: ending, Lag: 1000},
		},
		"the rules choose a pod that exited": {
			func(s *script) { exit(s); s.flow(3, ending, 11.003, 0); s.sent(history.Fresh, 3, 11, history.Timeout) },
			Loss{Cause: BackendEnded, Fresh: 1, Backend: ending, Lag: 1000, RulesLeft: 11000},
		},
		"it is with the pod when that exits": {
			func(s *script) { exit(s); s.sent(history.Fixed, 1, 9.99, history.Timeout) },
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending},
		},
		"it is with the pod that the rules chose when that exits": {
			func(s *script) { exit(s); s.flow(3, ending, 9.993, 0); s.sent(history.Fresh, 3, 9.99, history.Timeout) },
			Loss{Cause: BackendEnded, Fresh: 1, Backend: ending, RulesLeft: 9990},
		},
		"the rules chose that pod after the exit, and the port is used again": {
			func(s *script) { exit(s); s.flow(3, ending, 10.5, 0); s.sent(history.Fixed, 3, 11, history.Timeout) },
			Loss{Cause: BackendEnded, Fixed: 1, Backend: ending, Lag: 1000},
		},
		"the API reports that the exit was later than the last answer": {
			func(s *script) {
				exit(s)
				said := sec(10.2)
				s.change(history.PodExited, func(e *history.Event) { e.Said = &said })
				s.sent(history.Fixed, 1, 12.5, history.Timeout)
			},
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending, Lag: 2300},
		},
		"a terminating pod does not answer": {
			func(s *script) { s.ended(history.PodTerminating, 9); s.sent(history.Fixed, 1, 11, history.Timeout) },
			Loss{Cause: Unexplained, Fixed: 1, Backend: ending},
		},
		"a pod that was deleted by force answers no more": {
			func(s *script) { s.ended(history.PodDeleted, 10.1); s.sent(history.Fixed, 1, 11, history.Timeout) },
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending, Lag: 1000},
		},
		"the container is started again": {
			func(s *script) {
				exit(s)
				s.ended(history.PodRestarted, 11.5)
				s.sent(history.Fixed, 1, 10.7, history.ICMP)
				s.sent(history.Fixed, 1, 11, history.Answered)
			},
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending, Lag: 700},
		},
		"the container was started again long before": {
			func(s *script) {
				s.ended(history.PodRestarted, 11.5)
				s.sent(history.Fixed, 1, 10.7, history.Answered)
				s.sent(history.Fixed, 1, 11, history.Answered)
				s.sent(history.Fixed, 1, 12, history.Timeout)
			},
			Loss{Cause: Unexplained, Fixed: 1, Backend: ending},
		},
		"the node is taken": {
			func(s *script) {
				s.at(9.7, history.NewReclaimed(victim, history.With(history.Numbers{history.Took: 0.3})))
				s.sent(history.Fixed, 1, 12, history.Timeout)
			},
			Loss{Cause: NodeGone, Fixed: 1, Backend: ending, Lag: 2000},
		},
		"the node is taken and the pod deleted in the end": {
			func(s *script) {
				s.at(10, history.NewReclaimed(victim))
				s.ended(history.PodDeleted, 50)
				s.sent(history.Fixed, 1, 12, history.Timeout)
			},
			Loss{Cause: NodeGone, Fixed: 1, Backend: ending, Lag: 2000},
		},
		"the node is taken long after the exit": {
			func(s *script) {
				exit(s)
				s.at(12, history.NewReclaimed(victim))
				s.sent(history.Fixed, 1, 12.5, history.Timeout)
			},
			Loss{Cause: OldEntry, Fixed: 1, Backend: ending, Lag: 2500},
		},
		"the entry is removed before the answer is back": {
			func(s *script) { s.flow(3, staying, 5, 11.01); s.sent(history.Fixed, 3, 11, history.Timeout) },
			Loss{Cause: EntryRemoved, Fixed: 1, Backend: staying},
		},
		"the entry that it began is removed before the answer is back": {
			func(s *script) { s.flow(3, staying, 11.003, 11.05); s.sent(history.Fresh, 3, 11, history.Timeout) },
			Loss{Cause: EntryRemoved, Fresh: 1, Backend: staying},
		},
		"the entry is removed before a delayed answer is back": {
			func(s *script) {
				s.scenario.CoreDNS.Delay = strict.Duration(sec(0.1))
				s.flow(3, staying, 11.003, 11.15)
				s.sent(history.Fresh, 3, 11, history.Timeout)
			},
			Loss{Cause: EntryRemoved, Fresh: 1, Backend: staying},
		},
		"the next query begins another entry at once": {
			func(s *script) {
				s.flow(3, ending, 5, 11.009)
				s.flow(3, staying, 11.009, 0)
				s.sent(history.Fixed, 3, 11, history.Timeout)
			},
			Loss{Cause: EntryRemoved, Fixed: 1, Backend: ending},
		},
		"a pod without processor time answers after the removal": {
			func(s *script) {
				s.flow(3, staying, 5, 12.9)
				s.sent(history.Fixed, 3, 11, history.Timeout)
				s.waited(2, 10.9, 2500*time.Millisecond)
			},
			Loss{Cause: EntryRemoved, Fixed: 1, Backend: staying},
		},
		"the entry is removed when an answer would long have been back": {
			func(s *script) { s.flow(3, staying, 5, 11.2); s.sent(history.Fixed, 3, 11, history.Timeout) },
			Loss{Cause: Unexplained, Fixed: 1, Backend: staying},
		},
		"the entry is removed after the timeout": {
			func(s *script) { s.flow(3, staying, 5, 13.1); s.sent(history.Fixed, 3, 11, history.Timeout) },
			Loss{Cause: Unexplained, Fixed: 1, Backend: staying},
		},
		"there is no endpoint": {
			func(s *script) { endpointsGone(s); s.sent(history.Fresh, 3, 11, history.ICMP) },
			Loss{Cause: NoEndpoint, Fresh: 1},
		},
		"there is no endpoint, and the kernel does not report it each time": {
			func(s *script) { endpointsGone(s); s.sent(history.Fresh, 3, 11, history.Timeout) },
			Loss{Cause: NoEndpoint, Fresh: 1},
		},
		"there is no endpoint, and the next query of the port finds one": {
			func(s *script) {
				endpointsGone(s)
				s.flow(3, staying, 11.5, 0)
				s.sent(history.Fixed, 3, 11, history.Timeout)
			},
			Loss{Cause: NoEndpoint, Fixed: 1},
		},
		"there is no endpoint, and an old entry knows one": {
			func(s *script) {
				endpointsGone(s)
				s.flow(3, staying, 5, 0)
				s.sent(history.Fixed, 3, 11, history.Timeout)
			},
			Loss{Cause: Unexplained, Fixed: 1, Backend: staying},
		},
		"there was none until lately": {
			func(s *script) {
				endpointsGone(s)
				s.at(10.9, history.NewEndpointReady("", "", staying))
				s.sent(history.Fresh, 3, 11, history.ICMP)
			},
			Loss{Cause: NoEndpoint, Fresh: 1},
		},
		"endpoints that end still serve": {
			func(s *script) {
				endpointsGone(s)
				s.at(10, history.NewEndpointTerminating("", "", ending, true))
				s.at(10, history.NewEndpointNotReady("", "", ending, history.Conditions{Serving: true, Terminating: true}))
				s.sent(history.Fresh, 3, 16, history.ICMP)
			},
			Loss{Cause: Unexplained, Fresh: 1},
		},
		"it is rejected although there are endpoints": {
			func(s *script) { s.sent(history.Fresh, 3, 11, history.ICMP) },
			Loss{Cause: Unexplained, Fresh: 1},
		},
		"a pod that stays gives no moment": {
			func(s *script) { s.sent(history.Fixed, 2, 11, history.ServFail) },
			Loss{Cause: Refused, Fixed: 1, Backend: staying},
		},
		"a pod that stays has no listener at its port": {
			func(s *script) { s.sent(history.Fixed, 2, 11, history.ICMP) },
			Loss{Cause: Refused, Fixed: 1, Backend: staying},
		},
		"of many at a closed port the kernel reports one a second": {
			func(s *script) {
				for _, at := range []float64{10.2, 11.1} {
					s.sent(history.Fixed, 2, at, history.Timeout)
				}
				s.sent(history.Fixed, 2, 11.2, history.ICMP)
				s.sent(history.Fixed, 2, 12, history.Timeout)
			},
			Loss{Cause: Refused, Fixed: 4, Backend: staying},
		},
		"the answer came after the timeout": {
			func(s *script) { s.flow(3, staying, 11, 41); s.sent(history.Fresh, 3, 11, history.Timeout) },
			Loss{Cause: AnsweredLate, Fresh: 1, Backend: staying},
		},
		"of many on one port it is unknown whose answer came": {
			func(s *script) { s.flow(3, staying, 11, 41); s.sent(history.Fixed, 3, 11, history.Timeout) },
			Loss{Cause: Unexplained, Fixed: 1, Backend: staying},
		},
		"the control is lost as well": {
			func(s *script) {
				s.sent(history.Fixed, 2, 11, history.Timeout)
				s.queries = append(s.queries, history.Query{Target: history.Control, Mode: history.Fresh, Port: 9, Intended: sec(11.2), Outcome: history.Timeout})
			},
			Loss{Cause: ProberBusy, Fixed: 1},
		},
		"it left late": {
			func(s *script) {
				s.sent(history.Fixed, 2, 11, history.Timeout)
				s.queries[len(s.queries)-1].Sent += sec(0.2)
			},
			Loss{Cause: ProberBusy, Fixed: 1},
		},
		"a pod that stays does not answer": {
			func(s *script) { s.sent(history.Fixed, 2, 11, history.Timeout) },
			Loss{Cause: Unexplained, Fixed: 1, Backend: staying},
		},
		"the kernel dropped one, and one has no entry": {
			func(s *script) { s.insertFailed(1); s.sent(history.Fresh, 4, 12, history.Timeout) },
			Loss{Cause: InsertFailed, Fresh: 1},
		},
		"the kernel dropped one, and two have no entry": {
			func(s *script) {
				s.insertFailed(1)
				s.sent(history.Fresh, 4, 12, history.Timeout)
				s.sent(history.Fresh, 5, 12, history.Timeout)
			},
			Loss{Cause: Unexplained, Fresh: 2},
		},
		"the kernel dropped one, but not all entries are on record": {
			func(s *script) {
				s.insertFailed(1)
				s.change(history.FlowsRecorded, func(e *history.Event) { e.Numbers[history.Overflows] = 1 })
				s.sent(history.Fresh, 4, 12, history.Timeout)
			},
			Loss{Cause: Unexplained, Fresh: 1},
		},
		"where it went is not on record": {
			func(s *script) { exit(s); s.flows = nil; s.sent(history.Fixed, 1, 12, history.Timeout) },
			Loss{Cause: Unexplained, Fixed: 1},
		},
		"the recorder heard late of where it went": {
			func(s *script) { exit(s); s.flow(3, ending, 11.8, 0); s.sent(history.Fresh, 3, 11, history.Timeout) },
			Loss{Cause: BackendEnded, Fresh: 1, Backend: ending, Lag: 1000, RulesLeft: 11000},
		},
		"another query's entry is not its own": {
			func(s *script) { exit(s); s.flow(3, ending, 12.1, 0); s.sent(history.Fresh, 3, 11, history.Timeout) },
			Loss{Cause: Unexplained, Fresh: 1},
		},
		"its port's entry had ended": {
			func(s *script) { exit(s); s.sent(history.Fixed, 1, 16.1, history.Timeout) },
			Loss{Cause: Unexplained, Fixed: 1},
		},
		"the pod is not on record": {
			func(s *script) { s.flow(3, "10.0.0.3", 11, 0); s.sent(history.Fresh, 3, 11, history.Timeout) },
			Loss{Cause: Unexplained, Fresh: 1, Backend: "10.0.0.3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := lossStory()
			c.play(s)
			got := s.attribute().Losses
			if len(got) != 1 {
				t.Fatalf("losses %+v", got)
			}
			want := c.want
			want.Lag *= strict.Duration(time.Millisecond)
			want.Waited *= strict.Duration(time.Millisecond)
			want.RulesLeft *= strict.Duration(time.Millisecond)
			want.Pod = map[string]string{ending: "default/coredns-a", staying: "default/coredns-z"}[want.Backend]
			if ends := slices.Contains([]Cause{OldEntry, BackendEnded, NodeGone}, want.Cause); ends && want.RulesLeft == 0 && !strings.Contains(name, "started again") {
				want.RulesLeft = strict.Duration(sec(3))
			}
			want.From, want.To = got[0].From, got[0].To
			if got[0] != want {
				t.Errorf("got  %+v\nwant %+v", got[0], want)
			}
		})
	}
}

// One report that a port is closed shows nothing of a time from which there was an answer in between, or which is
// longer ago than the kernel's next report would have been.
func TestAPortIsNotClosedForLong(t *testing.T) {
	for name, lost := range map[string]float64{"long before": 9, "long after": 12.4, "after an answer": 11.6} {
		s := lossStory()
		s.sent(history.Fixed, 2, 11.2, history.ICMP)
		s.sent(history.Fixed, 2, 11.4, history.Answered)
		s.sent(history.Fixed, 2, lost, history.Timeout)
		if got := s.attribute().Losses; len(got) != 2 || got[0].Cause != Refused || got[1].Cause != Unexplained {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestLossesAreCountedByCauseAndPod(t *testing.T) {
	s := lossStory()
	s.ended(history.PodExited, 10.4)
	s.flow(3, ending, 11.003, 0)
	s.sent(history.Fresh, 3, 11, history.Timeout)
	for _, at := range []float64{11, 12.5, 12} {
		s.sent(history.Fixed, 1, at, history.Timeout)
	}
	s.sent(history.Fixed, 2, 15, history.ServFail)
	got := s.attribute().Losses
	want := []Loss{
		{Cause: OldEntry, Fixed: 3, Backend: ending, Pod: "default/coredns-a", From: strict.Duration(sec(11)), To: strict.Duration(sec(12.5)), Lag: strict.Duration(sec(2.5)), RulesLeft: strict.Duration(sec(11))},
		{Cause: BackendEnded, Fresh: 1, Backend: ending, Pod: "default/coredns-a", From: strict.Duration(sec(11)), To: strict.Duration(sec(11)), Lag: strict.Duration(sec(1)), RulesLeft: strict.Duration(sec(11))},
		{Cause: Refused, Fixed: 1, Backend: staying, Pod: "default/coredns-z", From: strict.Duration(sec(15)), To: strict.Duration(sec(15))},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	const line = "5 lost: 3 sent to 10.0.0.1 up to 2.500s after its last answer, by conntrack entries older than that (the rules last chose it at +11.000s); " +
		"1 sent to 10.0.0.1 up to 1.000s after its last answer, kube-proxy's rules still selected it; 1 refused by 10.0.0.2"
	if explained := Explain(got); explained != line {
		t.Errorf("explained as %q\nwant %q", explained, line)
	}
}

func TestEveryCauseIsExplained(t *testing.T) {
	explained := map[string]Cause{}
	for _, c := range Causes() {
		why := Loss{Cause: c, Backend: ending}.Why()
		if was, ok := explained[why]; ok || why == "" {
			t.Errorf("%s is explained as %s: %q", c, was, why)
		}
		explained[why] = c
	}
}

// A fresh port is used again when its last entry has expired. The kernel reports that end
// only then, and a busy recorder hears of it late: the query went by the next entry.
func TestAPortThatIsUsedAgain(t *testing.T) {
	for _, c := range []struct {
		begun float64 // the first entry
		want  string
	}{{3, staying}, {15, ending}} {
		s := lossStory()
		s.flow(5, ending, c.begun, 40.05)
		s.flow(5, staying, 40.05, 0)
		s.sent(history.Fresh, 5, 40, history.Answered)
		if f, ok := s.attribute().starved.of(s.queries[len(s.queries)-1]); !ok || f.Backend != c.want {
			t.Errorf("an entry of +%v s: sent to %s, want %s", c.begun, f.Backend, c.want)
		}
	}
}
