package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	ending  = "10.0.0.1" // of default/coredns-a on the victim
	staying = "10.0.0.2" // of default/coredns-z on the bystander
)

// servedStory is a drain in which every query to the service goes to a pod that stays, and
// some are lost there from 12 s on, for 300 ms. The control is that pod.
func servedStory() *script {
	s := drainStory()
	s.pod(1, history.PodPresent, "coredns-z", bystander, "ReplicaSet/coredns")
	s.at(1, history.NewPodReady("default/coredns-a", "uid-coredns-a", history.Node(victim), history.IP(ending)))
	s.at(1, history.NewPodReady("default/coredns-z", "uid-coredns-z", history.Node(bystander), history.IP(staying)))
	s.at(1, history.NewEndpointReady("", "default/coredns-z", staying))
	s.at(0.3, history.NewControlChosen("", "default/coredns-z", staying))
	s.at(28.9, history.NewFlowsRecorded("", history.With(history.Numbers{history.Resolution: 0.005})))
	s.flow(40000, staying, 1.5, 0)
	s.timeOut(history.Service, 12, 12.3)
	return s
}

// flow is an entry from one second on to another; 0 is the end of the recording.
// One that ends was removed and had been answered.
func (s *script) flow(port int, backend string, from, to float64) {
	s.flows = append(s.flows, history.Flow{Port: port, Backend: backend, From: sec(from), To: sec(to), Removed: to != 0, Replied: to != 0})
}

// sent is a query that left on time and whose end came after 2 ms, or the
// prober's timeout.
func (s *script) sent(mode history.Mode, port int, at float64, o history.Outcome) {
	done := sec(at) + 2*time.Millisecond
	if o == history.Timeout {
		done = sec(at + 2)
	}
	s.queries = append(s.queries, history.Query{Target: history.Service, Mode: mode, Port: port, Intended: sec(at), Sent: sec(at), Done: done, Outcome: o})
}

// timeOut has queries of all modes get no answer.
func (s *script) timeOut(target string, from, to float64) (lost int) {
	for i, q := range s.queries {
		if q.Target == target && q.Intended >= sec(from) && q.Intended <= sec(to) {
			s.queries[i].Outcome, s.queries[i].Done = history.Timeout, q.Intended+sec(2)
			lost++
		}
	}
	return lost
}

// starve records that a pod had no processor, and how many datagrams its socket dropped.
func (s *script) starve(pod string, from, to, ran float64, dropped int) {
	s.at(to, history.NewProcessorWaited("default/"+pod, history.With(history.Numbers{
		history.Waited: to - from, history.Ran: ran, history.Throttled: 0, history.Resolution: 0.02,
	})))
	if dropped > 0 {
		s.at(to+0.001, history.NewDatagramsDropped("default/"+pod, history.With(history.Numbers{
			history.Dropped: float64(dropped), history.Within: 0.1,
		})))
	}
}

// A pod that has no processor loses what its socket cannot hold. That is this machine's
// doing if the record shows all of it; whatever else is lost at the same time is found.
func TestLossesOfAPodWithoutAProcessor(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*script)
		want Outcome
		got  string
	}{
		"nothing on record": {func(*script) {}, Fail, "20 of 1566 lost"},
		"it waited, and its socket dropped them": {
			func(s *script) { s.starve("coredns-z", 11.9, 12.35, 0, 20) },
			Pass, "0 of 1546 lost, without 20 that were lost at pods that had no processor",
		},
		"before the notice": {
			func(s *script) {
				s.lose(history.Service, history.Fresh, 12, 12.3, history.Answered)
				s.lose(history.Service, history.Fixed, 12, 12.3, history.Answered)
				s.starve("coredns-z", 3.3, 3.75, 0, s.timeOut(history.Service, 3.4, 3.7))
			},
			Pass, "0 of ",
		},
		"two waits in a row": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 12.1, 0, 0)
				s.starve("coredns-z", 12.12, 12.35, 0.01, 25)
			},
			Pass, "0 of 1546 lost",
		},
		"then it ran all the time until it had caught up, and waited again": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 12.32, 0.01, 20)
				s.starve("coredns-z", 12.35, 12.4, 0.04, 0)
				s.starve("coredns-z", 12.42, 13, 0.5, 0)
			},
			Pass, "0 of 1546 lost",
		},
		"it ran before and after a short wait, within the same samples": {
			func(s *script) {
				s.lose(history.Service, history.Fresh, 12, 12.3, history.Answered)
				s.lose(history.Service, history.Fixed, 12, 12.3, history.Answered)
				s.starve("coredns-z", 12, 12.07, 0.02, s.timeOut(history.Service, 12.04, 12.07))
			},
			Pass, "0 of ",
		},
		"it ran for half of a short wait": {
			func(s *script) {
				s.lose(history.Service, history.Fresh, 12, 12.3, history.Answered)
				s.lose(history.Service, history.Fixed, 12, 12.3, history.Answered)
				s.starve("coredns-z", 12, 12.07, 0.035, s.timeOut(history.Service, 12.04, 12.07))
			},
			Fail, "lost",
		},
		"it ran for half of the time, with short waits between": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 11.94, 0.01, 0)
				s.starve("coredns-z", 11.97, 12.1, 0.1, 0)
				s.starve("coredns-z", 12.12, 12.16, 0.02, 20)
				s.starve("coredns-z", 12.18, 12.4, 0.15, 0)
			},
			Fail, "20 of 1566 lost",
		},
		"it waited longer than the prober's timeout: the answers came too late": {
			func(s *script) { s.starve("coredns-z", 11.9, 14.4, 0, 0) },
			Pass, "0 of 1546 lost",
		},
		"its socket dropped fewer: the rest was lost elsewhere": {
			func(s *script) { s.starve("coredns-z", 11.9, 12.35, 0, 7) },
			Fail, "20 of 1566 lost",
		},
		"its socket dropped none": {
			func(s *script) { s.starve("coredns-z", 11.9, 12.35, 0, 0) },
			Fail, "20 of 1566 lost",
		},
		"it ran half of the time: it was overloaded": {
			func(s *script) { s.starve("coredns-z", 11.9, 12.35, 0.2, 20) },
			Fail, "20 of 1566 lost",
		},
		"its own CPU limit held it back": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 12.35, 0, 20)
				s.change(history.ProcessorWaited, func(e *history.Event) { e.Numbers[history.Throttled] = 0.3 })
			},
			Fail, "20 of 1566 lost",
		},
		"its CPU limit may have held it back": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 12.35, 0, 20)
				s.change(history.ProcessorWaited, func(e *history.Event) { delete(e.Numbers, history.Throttled) })
			},
			Unknown, "too busy",
		},
		"another pod waited":         {func(s *script) { s.starve("coredns-y", 11.9, 12.35, 0, 20) }, Fail, "20 of 1566 lost"},
		"it waited at another time":  {func(s *script) { s.starve("coredns-z", 13, 13.4, 0, 20) }, Fail, "20 of 1566 lost"},
		"it waited for a short time": {func(s *script) { s.starve("coredns-z", 12.26, 12.3, 0, 20) }, Fail, "20 of 1566 lost"},
		"the control was dropped there as well": {
			func(s *script) {
				s.timeOut(history.Control, 12, 12.3)
				s.starve("coredns-z", 11.9, 12.35, 0, 20)
			},
			Unknown, "the prober's own noise",
		},
		"the control was dropped there as well, and counted": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 12.35, 0, 20+s.timeOut(history.Control, 12, 12.3))
			},
			Pass, "0 of 1546 lost",
		},
		"another query is lost later": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 12.35, 0, 20)
				s.timeOut(history.Service, 15, 15)
			},
			Fail, "2 of 1546 lost",
		},
		"another query was under way to another pod, and kube-proxy removed its entry": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 12.35, 0, 20)
				s.flow(5, ending, 3, 12.201)
				s.flow(5, staying, 12.202, 0)
				s.sent(history.Fixed, 5, 12.2, history.Timeout)
			},
			Fail, "1 of 1547 lost, without 20 that were lost at pods that had no processor",
		},
		"queries are refused at the same time": {
			func(s *script) {
				s.starve("coredns-z", 11.9, 12.35, 0, 20)
				s.lose(history.Service, history.Fixed, 12, 12.1, history.ServFail)
			},
			Fail, "3 of 1549 lost",
		},
		"the pod is leaving": {
			func(s *script) {
				s.pod(11, history.PodTerminating, "coredns-z", bystander, "ReplicaSet/coredns")
				s.starve("coredns-z", 11.9, 12.35, 0, 20)
			},
			Unknown, "only 0 of them surely",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := servedStory()
			s.scenario.Checks = []scenarios.Check{Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0)})}
			c.edit(s)
			if v := s.judge().Verdicts[0]; v.Outcome != c.want || !strings.Contains(v.Got, c.got) {
				t.Errorf("%s: %s, want %s with %q", v.Outcome, v.Got, c.want, c.got)
			}
		})
	}
}

// What a pod that has ended loses is found also while the control waits for a processor, if
// the record shows that this is why the control was late. Without that proof it is unknown.
func TestARealLossWhileTheControlHasNoProcessor(t *testing.T) {
	for _, c := range []struct {
		proof bool
		want  Outcome
	}{{true, Fail}, {false, Unknown}} {
		s := servedStory()
		s.scenario.Checks = []scenarios.Check{Require(Losses{Of: scenarios.DNS, Mode: "all", Max: new(0)})}
		s.flows = nil
		s.flow(40000, staying, 1.5, 11.95)
		s.flow(40000, ending, 11.95, 12.35) // it was deleted at 10 s
		s.flow(40000, staying, 12.35, 0)
		for i, q := range s.queries {
			if q.Target == history.Control && q.Intended > sec(11.8) && q.Intended < sec(12.5) {
				s.queries[i].Done = sec(12.6)
			}
		}
		if c.proof {
			s.starve("coredns-z", 11.7, 12.6, 0, 0)
		}
		if v := s.judge().Verdicts[0]; v.Outcome != c.want {
			t.Errorf("with proof %t: %s: %s, want %s", c.proof, v.Outcome, v.Got, c.want)
		}
	}
}
