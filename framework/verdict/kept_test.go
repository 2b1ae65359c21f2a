package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Keys of what an operator put on the victim of keptStory.
const (
	othersTaint = "team.example.com/dedicated"
	othersLabel = "team.example.com/state"
	othersNote  = "team.example.com/contact"
)

// keptStory is a drain of a node that an operator prepared, with the API server's audit
// log. It passes.
func keptStory() *script {
	s := drainStory()
	s.scenario.Probe, s.queries = nil, nil
	victimPick := s.scenario.Nodes["victim"]
	victimPick.Prepared = &scenarios.Prepared{}
	s.scenario.Nodes["victim"] = victimPick
	s.drop(func(e history.Event) bool { return e.Kind == history.ProberStarted || e.Kind == history.ProberEnded })
	s.scenario.Steps = s.scenario.Steps[:1] // the instance stays
	s.drop(kind(history.Reclaimed))
	s.scenario.Checks = []scenarios.Check{
		Require(Marked{Node: "victim", Notice: "reclaim", Within: strict.Duration(sec(5))}),
		Require(Drained{Node: "victim", Notice: "reclaim"}),
		Require(OthersKept{Node: "victim"}),
		Require(Marked{Node: "victim", Notice: "reclaim", UntilGone: true}),
	}
	for _, p := range []struct {
		of         history.Preparation
		key, value string
	}{{history.PreparedTaint, othersTaint, "NoSchedule"}, {history.PreparedLabel, othersLabel, "in-use"}, {history.PreparedAnnotation, othersNote, "night-shift"}} {
		s.at(1.1, history.NewNodePrepared(p.of, p.key, p.value, history.Node(victim)))
	}
	s.at(1, history.NewNodeTainted(victim, othersTaint, "NoSchedule"))
	s.wrote(4.45)
	s.evictedAt(4.9, "coredns-a")
	s.at(29.15, history.NewAuditRead(""))
	// Long enough for a mark to be taken off.
	for i := range s.events {
		if e := &s.events[i]; e.At > sec(24.1) {
			e.At += sec(15)
		}
	}
	return s
}

// wrote records a change of the victim in the audit log, and evictedAt an eviction.
func (s *script) wrote(seconds float64) {
	said := sec(seconds)
	s.at(23, history.NewHandlerWrote("handler-1", victim, "", history.Action("patch"), history.Said(said)))
}

func (s *script) evictedAt(seconds float64, pod string) {
	said := sec(seconds)
	s.at(23, history.NewHandlerTook("handler-1", "default/"+pod, history.Action("evict"), history.Said(said)))
}

// taken is something of the victim that goes, at a time at which the handler wrote.
func (s *script) taken(seconds float64, e history.Event) {
	e.Node = victim
	s.at(seconds, e)
	s.wrote(seconds - 0.1)
}

// missedBefore requires that no check but this one finds what was changed: before it was
// there, the drill passed.
func missedBefore(t *testing.T, s *script, check string) {
	t.Helper()
	for _, v := range s.judge().Verdicts {
		if v.Check != check && v.Outcome != Pass {
			t.Errorf("%s finds it too: %s, %s", v.Check, v.Outcome, v.Got)
		}
	}
}

func TestADrainOfAPreparedNodePasses(t *testing.T) {
	if r := keptStory().judge(); r.Outcome != Pass {
		t.Errorf("%s: %+v", r.Outcome, r.Verdicts)
	}
}

func TestWhatOthersPutOnANode(t *testing.T) {
	const check = "others' state of victim kept"
	for _, x := range []expectation{
		{name: "kept", want: Pass, got: "3 kept"},
		{"their taint taken off", func(s *script) {
			s.taken(6, history.NewNodeUntainted("", othersTaint, "NoSchedule"))
		}, "", Fail, othersTaint, false},
		{"their taint with another effect", func(s *script) {
			s.taken(6, history.NewNodeTainted("", othersTaint, "PreferNoSchedule"))
			s.taken(6, history.NewNodeUntainted("", othersTaint, "NoSchedule"))
		}, "", Fail, othersTaint, false},
		{"their label replaced", func(s *script) {
			s.taken(6, history.NewNodeLabelled("", othersLabel, "draining", history.Note(`"in-use"`)))
		}, "", Fail, othersLabel, false},
		{"their label removed", func(s *script) {
			s.taken(6, history.NewNodeUnlabelled("", othersLabel, history.Note(`"in-use"`)))
		}, "", Fail, othersLabel, false},
		{"their annotation removed", func(s *script) {
			s.taken(6, history.NewNodeUnannotated("", othersNote, history.Note(`"night-shift"`)))
		}, "", Fail, othersNote, false},
		{"an annotation removed that was not prepared, but there", func(s *script) {
			s.taken(6, history.NewNodeUnannotated("", "vendor.example.org/x", history.Note(`"1"`)))
		}, "", Fail, "vendor.example.org/x", false},
		{"an annotation of the handler's own, replaced and removed", func(s *script) {
			s.taken(6, history.NewNodeAnnotated("", "handler.dev/record", "1"))
			s.taken(7, history.NewNodeAnnotated("", "handler.dev/record", "2", history.Note(`"1"`)))
			s.taken(8, history.NewNodeUnannotated("", "handler.dev/record", history.Note(`"2"`)))
		}, "", Pass, "3 kept", false},
		{"a label that a kubelet changes when the handler writes", func(s *script) {
			s.taken(6, history.NewNodeLabelled("", "kubernetes.io/os", "b", history.Note(`"a"`)))
		}, "", Pass, "3 kept", false},
		{"taken off by somebody else, by the audit log", func(s *script) {
			s.at(20, history.NewNodeUnlabelled(victim, othersLabel, history.Note(`"in-use"`)))
		}, "", Pass, "3 kept", false},
		{"taken off, and no audit log", func(s *script) {
			s.drop(func(e history.Event) bool {
				return e.Kind == history.AuditRead || e.Kind == history.HandlerWrote || e.Kind == history.HandlerTook
			})
			s.at(6, history.NewNodeUnlabelled(victim, othersLabel, history.Note(`"in-use"`)))
		}, "", Unknown, "the history does not show by whom", false},
		{"taken off some seconds after the handler wrote", func(s *script) {
			s.at(9, history.NewNodeUnlabelled(victim, othersLabel, history.Note(`"in-use"`)))
		}, "", Unknown, "the history does not show by whom", false},
		{"the handler never changed the node", func(s *script) { s.drop(kind(history.HandlerWrote)) }, "", Unknown, "nothing shows that the handler changed", false},
		{"nothing prepared", func(s *script) { s.drop(kind(history.NodePrepared)) }, "", Unknown, "does not show that anything was prepared", false},
		{"the prepared taint was not there", func(s *script) {
			s.drop(func(e history.Event) bool { return e.Kind == history.NodeTainted && e.Setting().Key == othersTaint })
		}, "", Unknown, "was not on", false},
		{"an operator's cordon taken off", func(s *script) {
			s.cordonBefore()
			s.taken(12, history.NewNodeUncordoned(""))
		}, "", Fail, "node.uncordoned", false},
		{"an operator's cordon taken off by the operator", func(s *script) {
			s.cordonBefore()
			s.at(11.9, history.NewOperatorActed("", history.UncordonNode, victim))
			s.taken(12, history.NewNodeUncordoned(""))
		}, "", Pass, "4 kept", false},
	} {
		x.check = check
		x.run(t, keptStory)
	}
	for name, e := range map[string]history.Event{
		"taint":      history.NewNodeUntainted("", othersTaint, "NoSchedule"),
		"label":      history.NewNodeLabelled("", othersLabel, "draining", history.Note(`"in-use"`)),
		"annotation": history.NewNodeUnannotated("", othersNote, history.Note(`"night-shift"`)),
	} {
		t.Run("no other check finds a lost "+name, func(t *testing.T) {
			s := keptStory()
			s.taken(6, e)
			missedBefore(t, s, check)
		})
	}
}

// cordonBefore prepares the victim cordoned. The handler then marks it with its taint.
func (s *script) cordonBefore() {
	s.at(1.1, history.NewNodePrepared(history.PreparedCordon, "", "", history.Node(victim)))
	s.drop(kind(history.NodeCordoned))
	s.at(1, history.NewNodeCordoned(victim))
	s.at(4.5, history.NewNodeTainted(victim, "example.com/disrupted", "NoSchedule"))
}

// What an operator cordoned before is no mark of the handler's, and no touch.
func TestANodeThatIsAlreadyCordoned(t *testing.T) {
	s := keptStory()
	s.cordonBefore()
	if r := s.judge(); r.Outcome != Pass {
		t.Errorf("%s: %+v", r.Outcome, r.Verdicts)
	}
	s.drop(func(e history.Event) bool {
		return e.Kind == history.NodeTainted && e.Setting().Key == "example.com/disrupted"
	})
	if v := named(t, s.judge(), "marked victim"); v.Outcome != Fail {
		t.Errorf("the operator's cordon counts as the handler's mark: %s, %s", v.Outcome, v.Got)
	}
}

func TestTheMarkIsKept(t *testing.T) {
	const check = "mark of victim kept"
	for _, x := range []expectation{
		{name: "kept", want: Pass, got: "kept for"},
		{"taken off, and put on again", func(s *script) {
			s.taken(12, history.NewNodeUncordoned(""))
			s.taken(20, history.NewNodeTainted("", "example.com/disrupted", "NoSchedule"))
		}, "", Fail, "taken off at +12.000s", false},
		{"cordon off, and the taint there", func(s *script) {
			s.at(4.5, history.NewNodeTainted(victim, "example.com/disrupted", "NoSchedule"))
			s.taken(12, history.NewNodeUncordoned(""))
		}, "", Pass, "kept for", false},
		{"made a taint that the scheduler may ignore", func(s *script) {
			s.at(4.5, history.NewNodeTainted(victim, "example.com/disrupted", "NoSchedule"))
			s.taken(12, history.NewNodeUncordoned(""))
			s.taken(13, history.NewNodeTainted("", "example.com/disrupted", "PreferNoSchedule"))
			s.taken(13, history.NewNodeUntainted("", "example.com/disrupted", "NoSchedule"))
		}, "", Fail, "taken off at +13.000s", false},
		{"taken off by the operator", func(s *script) {
			s.at(11.9, history.NewOperatorActed("", history.UncordonNode, victim))
			s.at(12, history.NewNodeUncordoned(victim))
		}, "", Pass, "kept for", false},
		{"taken off by the operator, with the taint", func(s *script) {
			s.at(4.5, history.NewNodeTainted(victim, "example.com/disrupted", "NoSchedule"))
			s.at(11.9, history.NewOperatorActed("", history.ReadmitNode, victim))
			s.at(12, history.NewNodeUncordoned(victim))
			s.at(12, history.NewNodeUntainted(victim, "example.com/disrupted", "NoSchedule"))
		}, "", Pass, "kept for", false},
		{"taken off, and no audit log", func(s *script) {
			s.drop(func(e history.Event) bool {
				return e.Kind == history.AuditRead || e.Kind == history.HandlerWrote || e.Kind == history.HandlerTook
			})
			s.at(12, history.NewNodeUncordoned(victim))
		}, "", Unknown, "does not show by whom", false},
		{"never put on", func(s *script) { s.drop(kind(history.NodeCordoned)) }, "", Unknown, "was not marked", false},
	} {
		x.check = check
		x.run(t, keptStory)
	}
	t.Run("no other check finds a mark that was off for a while", func(t *testing.T) {
		s := keptStory()
		s.taken(12, history.NewNodeUncordoned(""))
		s.taken(20, history.NewNodeTainted("", "example.com/disrupted", "NoSchedule"))
		missedBefore(t, s, check)
	})
}

// An operator may put a node back: that is no failure of the handler's mark.
func TestAnOperatorUncordonsTheNode(t *testing.T) {
	s := keptStory()
	s.at(11.9, history.NewOperatorActed("", history.UncordonNode, victim))
	s.at(12, history.NewNodeUncordoned(victim))
	if v := named(t, s.judge(), "marked victim"); v.Outcome != Pass {
		t.Errorf("%s, %s", v.Outcome, v.Got)
	}
	s.drop(kind(history.OperatorActed))
	if v := named(t, s.judge(), "marked victim"); v.Outcome != Fail {
		t.Errorf("taken off by the handler: %s, %s", v.Outcome, v.Got)
	}
}
