package verdict

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

func victimCordoned(e history.Event) bool {
	return e.Kind == history.NodeCordoned && e.Node == victim
}

// moveMark has the handler cordon the victim at another time.
func moveMark(seconds float64) func(*script) {
	return func(s *script) {
		s.drop(victimCordoned)
		s.at(seconds, history.Event{Kind: history.NodeCordoned, Node: victim})
	}
}

func TestMarked(t *testing.T) {
	for _, x := range []expectation{
		{name: "cordoned", want: Pass, got: "0.500s"},
		{name: "on the edge", edit: moveMark(9), want: Pass, got: "5.000s"},
		{name: "late", edit: moveMark(9.001), want: Fail, got: "5.001s"},
		{name: "tainted in place of cordoned", edit: func(s *script) {
			s.drop(victimCordoned)
			s.at(5, history.Event{Kind: history.NodeTainted, Node: victim, Key: "example.com/disrupted"})
		}, want: Pass, got: "1.000s"},
		{name: "never", edit: func(s *script) { s.drop(victimCordoned) }, want: Fail, got: "before its instance was taken"},
		{name: "only after the instance was taken", edit: moveMark(24.5), want: Fail, got: "before its instance was taken"},
		{name: "never, and never taken", edit: func(s *script) { s.drop(victimCordoned); s.drop(kind(history.Reclaimed)) }, want: Fail, got: "not marked"},
		{name: "another node", edit: func(s *script) {
			s.drop(victimCordoned)
			s.at(5, history.Event{Kind: history.NodeCordoned, Node: bystander})
		}, want: Fail},
		{name: "by a taint that the handler does not claim", edit: func(s *script) {
			s.drop(victimCordoned)
			s.at(5, history.Event{Kind: history.NodeTainted, Node: victim, Key: "example.com/other"})
		}, want: Fail},
		{name: "by a mark that the handler does not claim", edit: func(s *script) { s.meta.Handler.Unschedulable = false }, want: Fail},
		{name: "taken off again", edit: func(s *script) { s.at(12, history.Event{Kind: history.NodeUncordoned, Node: victim}) }, want: Fail, got: "+12.000s"},
		{name: "one of two marks taken off", edit: func(s *script) {
			s.at(5, history.Event{Kind: history.NodeTainted, Node: victim, Key: "example.com/disrupted"})
			s.at(12, history.Event{Kind: history.NodeUncordoned, Node: victim})
		}, want: Pass},
		{name: "marked by an earlier notice", edit: func(s *script) {
			moveMark(3.5)(s)
			s.at(3, history.Event{Kind: history.NoticePut, Key: "advice", Node: victim})
		}, want: Pass, got: "0.000s"},
		{name: "marked before any notice", edit: moveMark(3), want: Unknown, got: "before any notice"},
		{name: "recording ends too soon", edit: func(s *script) {
			s.drop(victimCordoned)
			s.at(7, history.Event{Kind: history.RunError, Note: "lost the watch"})
		}, want: Unknown, got: "recording ends there"},
		{name: "taken before the time was up, then the harness broke", edit: func(s *script) {
			s.drop(victimCordoned)
			s.change(history.Reclaimed, func(e *history.Event) { e.At = sec(7) })
			s.at(8, history.Event{Kind: history.RunError, Note: "lost the watch"})
		}, want: Fail, got: "before its instance was taken"},
		{name: "no role", edit: func(s *script) { s.drop(kind(history.NodeRole)) }, want: Unknown, got: `which node "victim" is`},
		{name: "node not seen", edit: func(s *script) { s.drop(kind(history.NodePresent)) }, want: Unknown, got: "was not seen"},
		{name: "notice for another node", edit: func(s *script) {
			s.change(history.NoticePut, func(e *history.Event) { e.Node = bystander })
		}, want: Unknown, got: "never put"},
		{name: "handler claims no mark", edit: func(s *script) { s.meta.Handler = history.Handler{Name: "shy"} }, want: Unknown, got: `"shy" claims no mark`},
	} {
		x.check = "marked victim"
		x.run(t, drainStory)
	}
}

func TestMarkedSaysHowLongItTookAndWhereThatStands(t *testing.T) {
	s := drainStory()
	h := s.history()
	v := named(t, Judge(s.scenario, h), "marked victim")
	if v.Numbers["marked_seconds"] != 0.5 {
		t.Errorf("numbers %v", v.Numbers)
	}
	if len(v.Evidence) != 2 || h.Events[v.Evidence[0]-1].Kind != history.NoticePut || h.Events[v.Evidence[1]-1].Kind != history.NodeCordoned {
		t.Errorf("evidence %v", v.Evidence)
	}
}

func TestMarkedWantsWhatTheHandlerClaims(t *testing.T) {
	for want, h := range map[string]history.Handler{
		"cordoned within":                {Unschedulable: true},
		"tainted a/b within":             {Taint: "a/b"},
		"cordoned or tainted a/b within": {Unschedulable: true, Taint: "a/b"},
		"marked within":                  {},
	} {
		s := drainStory()
		s.meta.Handler = h
		if v := named(t, s.judge(), "marked victim"); !strings.HasPrefix(v.Want, want) {
			t.Errorf("requires %q, want %q", v.Want, want)
		}
	}
}

func TestUntouched(t *testing.T) {
	touch := func(e history.Event) func(*script) {
		return func(s *script) {
			e.Node = bystander
			s.at(8, e)
		}
	}
	for _, x := range []expectation{
		{name: "left alone", want: Pass},
		{name: "cordoned", edit: touch(history.Event{Kind: history.NodeCordoned}), want: Fail, got: "node.cordoned"},
		{name: "cordoned by a handler that claims taints only", edit: func(s *script) {
			s.meta.Handler.Unschedulable = false
			touch(history.Event{Kind: history.NodeCordoned})(s)
		}, want: Fail},
		{name: "tainted", edit: touch(history.Event{Kind: history.NodeTainted, Key: "example.com/disrupted"}), want: Fail},
		{name: "tainted by Kubernetes", edit: touch(history.Event{Kind: history.NodeTainted, Key: "node.kubernetes.io/unreachable"}), want: Pass},
		{name: "deleted", edit: touch(history.Event{Kind: history.NodeDeleted}), want: Fail},
		{name: "pod evicted", edit: touch(history.Event{Kind: history.PodEvicted, Pod: "default/proxy-" + bystander, UID: "uid-proxy-" + bystander, Reason: "EvictionByEvictionAPI"}), want: Fail},
		{name: "pod taken by the node controller", edit: touch(history.Event{Kind: history.PodEvicted, Pod: "default/proxy-" + bystander, UID: "uid-proxy-" + bystander, Reason: "DeletionByTaintManager"}), want: Pass},
		{name: "pod of the workload deleted", edit: deletes("ReplicaSet/web", ""), want: Fail, got: "pod.terminating"},
		{name: "daemon pod deleted by the handler", edit: func(s *script) {
			s.pod(8, history.PodTerminating, "proxy-"+bystander, bystander, "DaemonSet/kube-proxy")
			s.took(7.9, "default/proxy-"+bystander)
		}, want: Fail, got: "pod.terminating"},
		{name: "daemon pod deleted, and no audit log", edit: func(s *script) {
			s.pod(8, history.PodTerminating, "proxy-"+bystander, bystander, "DaemonSet/kube-proxy")
		}, want: Unknown, got: "the history does not say by whom"},
		{name: "daemon pod deleted by somebody else", edit: func(s *script) {
			s.pod(8, history.PodTerminating, "proxy-"+bystander, bystander, "DaemonSet/kube-proxy")
			s.at(28, history.Event{Kind: history.AuditRead})
		}, want: Pass},
		{name: "tainted by somebody else", edit: func(s *script) {
			touch(history.Event{Kind: history.NodeTainted, Key: "cni.example.com/agent-not-ready"})(s)
			s.at(28, history.Event{Kind: history.AuditRead})
		}, want: Pass},
		{name: "cordoned while putting back", edit: func(s *script) { s.at(33, history.Event{Kind: history.NodeCordoned, Node: bystander}) }, want: Pass},
		{name: "cordoned after it was taken", edit: func(s *script) {
			s.at(7, history.Event{Kind: history.Reclaimed, Node: bystander})
			s.at(8, history.Event{Kind: history.NodeCordoned, Node: bystander})
		}, want: Pass},
		{name: "taken untouched, then the harness broke", edit: func(s *script) {
			s.at(7, history.Event{Kind: history.Reclaimed, Node: bystander})
			s.at(8, history.Event{Kind: history.RunError, Note: "x"})
		}, want: Pass},
		{name: "no role", edit: func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.NodeRole && e.Key == "bystander" })
		}, want: Unknown},
		{name: "recording ends too soon", edit: touch(history.Event{Kind: history.RunError, Note: "x"}), want: Unknown, got: "recording ends there"},
	} {
		x.check = "untouched bystander"
		x.run(t, drainStory)
	}
}

func TestNodeEvent(t *testing.T) {
	by := func(reporter string) func(*script) {
		return func(s *script) { s.change(history.ClusterEvent, func(e *history.Event) { e.Owner = reporter }) }
	}
	when := func(seconds float64) func(*script) {
		return func(s *script) { s.change(history.ClusterEvent, func(e *history.Event) { e.At = sec(seconds) }) }
	}
	for _, x := range []expectation{
		{name: "in time", want: Pass, got: "SpotInterruption by builtin after 0.600s"},
		{name: "no event", edit: func(s *script) { s.drop(kind(history.ClusterEvent)) }, want: Fail},
		{name: "on the edge", edit: when(9), want: Pass},
		{name: "late", edit: when(9.5), want: Fail, got: "only after 5.500s"},
		{name: "before the notice", edit: when(3), want: Fail},
		{name: "by the node controller", edit: by("node-controller"), want: Fail},
		{name: "without a reporter", edit: by(""), want: Fail},
		{name: "about a pod", edit: func(s *script) { s.change(history.ClusterEvent, func(e *history.Event) { e.Key = "Pod" }) }, want: Fail},
		{name: "about another node", edit: func(s *script) { s.change(history.ClusterEvent, func(e *history.Event) { e.Node = bystander }) }, want: Fail},
		{name: "notice never put", edit: func(s *script) { s.drop(kind(history.NoticePut)) }, want: Unknown},
		{name: "recording ends too soon", edit: func(s *script) {
			s.drop(kind(history.ClusterEvent))
			s.at(7, history.Event{Kind: history.RunError, Note: "x"})
		}, want: Unknown, got: "recording ends there"},
	} {
		x.check = "event on victim"
		x.run(t, drainStory)
	}
}
