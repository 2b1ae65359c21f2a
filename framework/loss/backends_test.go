package loss

import (
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Each of two pods gets half of the new flows. Twenty in a row to the one prove that the
// rules have stopped choosing the other.
func TestTheRulesHaveStoppedChoosingAPod(t *testing.T) {
	ends, stays := &backend{}, &backend{}
	flows := []newFlow{{sec(1), stays}, {sec(2), ends}}
	for i := range othersEach * 2 {
		flows = append(flows, newFlow{sec(3) + sec(0.001)*time.Duration(i), stays})
	}
	pods := map[string]*backend{ending: ends, staying: stays}
	if at, known := unchosenSince(pods, flows[:len(flows)-1])[ends]; known {
		t.Errorf("19 new flows to the other pod prove that the rules had changed at %s", at)
	}
	since := unchosenSince(pods, flows)
	if at := since[ends]; at != sec(3.019) {
		t.Errorf("the rules had changed at %s, want 3.019 s", at)
	}
	if at, known := since[stays]; known {
		t.Errorf("the rules stopped choosing the pod that stays at %s", at)
	}

	ends.unchosen = map[string]time.Duration{"node": since[ends]}
	at := moment{of: ends}
	for name, c := range map[string]struct {
		h        Hole
		portEach bool
		want     bool
	}{
		"after the change":                         {Hole{node: "node", from: sec(3.1), to: sec(3.3), at: at}, true, true},
		"before that is certain":                   {Hole{node: "node", from: sec(3.01), to: sec(3.3), at: at}, true, false},
		"with ports that are used again":           {Hole{node: "node", from: sec(3.1), to: sec(3.3), at: at}, false, false},
		"at another node, whose rules are unknown": {Hole{node: "other", from: sec(3.1), to: sec(3.3), at: at}, true, false},
		"around what no traffic shows":             {Hole{node: "node", from: sec(3.1), to: sec(3.3)}, true, false},
	} {
		if got := c.h.harmless(c.portEach); got != c.want {
			t.Errorf("a hole %s is harmless: %t, want %t", name, got, c.want)
		}
	}
}

// kube-proxy without a processor changes the rules late: what is sent to a pod that ended
// meanwhile is this machine's doing, up to the time that kube-proxy waited.
func TestRulesThatAreLateForLackOfAProcessor(t *testing.T) {
	for name, c := range map[string]struct {
		waited float64
		node   string
		want   bool
	}{
		"it waited for as long as the rules were late": {0.5, reserved, true},
		"it waited for less":                           {0.1, reserved, false},
		"that of another node waited":                  {0.5, bystander, false},
	} {
		s := lossStory()
		s.pod(1, history.PodPresent, "kube-proxy-a", c.node, "DaemonSet/kube-proxy")
		for i := range s.events {
			if s.events[i].UID == "uid-kube-proxy-a" {
				s.events[i].Pod = "kube-system/kube-proxy-a"
			}
		}
		s.at(9.9, history.NewEndpointTerminating("", "default/coredns-a", ending, false))
		s.pod(10.1, history.PodExited, "coredns-a", victim, "ReplicaSet/coredns")
		s.starve("kube-proxy-a", 10, 10+c.waited, 0, 0)
		s.change(history.ProcessorWaited, func(e *history.Event) { e.Pod = "kube-system/kube-proxy-a" })
		for i := range s.flows {
			s.flows[i].Node = reserved
		}
		s.flow(3, ending, 10.4, 0)
		s.flows[len(s.flows)-1].Node = reserved
		s.sent(history.Fresh, 3, 10.4, history.Timeout)
		for i := range s.queries {
			s.queries[i].Node = reserved
		}
		a := s.attribute()
		lost := s.queries[len(s.queries)-1]
		if cause := a.Cause(lost); cause != BackendEnded {
			t.Fatalf("%s: the cause is %s", name, cause)
		}
		if got := a.starved.lateRules(lost); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
