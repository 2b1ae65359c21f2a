package scenarios

import (
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Loading and playing a step rely on it.
func TestEveryStepIsAKindOfStep(t *testing.T) {
	for field := range fields[Step]() {
		if !field.Type.Elem().Implements(reflect.TypeFor[stepKind]()) {
			t.Errorf("%s of a step: %s lacks a method of stepKind", field.Name, field.Type.Elem())
		}
	}
}

// fields yields the fields of a struct of alternatives, each of which is a pointer.
func fields[T any]() iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		of := reflect.TypeFor[T]()
		for i := range of.NumField() {
			if !yield(of.Field(i)) {
				return
			}
		}
	}
}

func TestWhatAStepDoes(t *testing.T) {
	notice := Notice{Name: "reclaim"}
	for name, c := range map[string]struct {
		step Step
		want any
	}{
		"one":     {Step{Notice: &notice}, notice},
		"nothing": {Step{}, nil},
		"two":     {Step{Notice: &notice, Reclaim: &Reclaim{}}, nil},
	} {
		if got := c.step.Kind(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestWhatTheStepsOfAScenarioDo(t *testing.T) {
	s := Scenario{CoreDNS: coredns.Defaults(), Steps: []Step{
		{Notice: &Notice{Name: "reclaim"}},
		{Fault: &Fault{fault.Fault{Name: "outage"}}},
		{Message: &Message{Name: "garbage"}},
		{Fault: &Fault{fault.Fault{Name: "late"}}},
		{Reclaim: &Reclaim{Node: "victim", At: "reclaim"}},
	}}
	if f := s.Faults(); len(f) != 2 || f[0].Name != "outage" || f[1].Name != "late" {
		t.Errorf("faults %+v", f)
	}
	if m := s.Messages(); len(m) != 1 || m[0].Name != "garbage" {
		t.Errorf("messages %+v", m)
	}
	if s.Unannounced() || s.Disturbed() || !s.KeepsDNSPod() {
		t.Errorf("unannounced %t, disturbed %t, keeps a DNS pod %t", s.Unannounced(), s.Disturbed(), s.KeepsDNSPod())
	}
	s.Steps = append(s.Steps, Step{Reclaim: &Reclaim{Node: "victim"}}, Step{Do: &Do{Verb: Kill, Target: OnHandler}}, Step{Do: &Do{Verb: Kill, Target: OnCoreDNS, Node: "victim"}})
	if !s.Unannounced() || !s.Disturbed() || !s.KeepsDNSPod() {
		t.Errorf("unannounced %t, disturbed %t, keeps a DNS pod %t", s.Unannounced(), s.Disturbed(), s.KeepsDNSPod())
	}
	if s.Steps = append(s.Steps, Step{Do: &Do{Verb: Kill, Target: OnCoreDNS}}); s.KeepsDNSPod() {
		t.Error("keeps a DNS pod, though all are disrupted")
	}
}

func TestExpected(t *testing.T) {
	seconds := func(n int) strict.Duration { return strict.Duration(time.Duration(n) * time.Second) }
	for name, c := range map[string]struct {
		steps []Step
		want  int // seconds, of which 5 to settle
	}{
		"nothing to wait for":         {[]Step{{Notice: &Notice{}}, {Reclaim: &Reclaim{Node: "victim"}}}, 5},
		"to the deadline":             {[]Step{{Notice: &Notice{}}, {Reclaim: &Reclaim{At: "reclaim"}}, {Reclaim: &Reclaim{At: "other"}}}, 25},
		"a budget changes before":     {[]Step{{Do: &Do{Verb: Configure, Target: OnBudget, At: "reclaim", After: seconds(12)}}, {Reclaim: &Reclaim{At: "reclaim"}}}, 25},
		"a budget changes later":      {[]Step{{Do: &Do{Verb: Configure, Target: OnBudget, At: "reclaim", After: seconds(30)}}, {Reclaim: &Reclaim{At: "reclaim"}}}, 35},
		"a disruption waits":          {[]Step{{Do: &Do{Verb: Restart, Target: OnCoreDNS, After: seconds(20)}}, {Reclaim: &Reclaim{At: "reclaim"}}}, 45},
		"a fault ends":                {[]Step{{Fault: &Fault{fault.Fault{Name: "outage", For: seconds(30)}}}, {Await: &Await{Ended: "outage"}}}, 35},
		"a fault ends after another":  {[]Step{{Fault: &Fault{fault.Fault{Name: "half", For: seconds(30)}}}, {Fault: &Fault{fault.Fault{Name: "outage", For: seconds(60)}}}, {Await: &Await{Ended: "half"}}, {Await: &Await{Ended: "outage"}}}, 65},
		"DNS answers again":           {[]Step{{Await: &Await{Answering: seconds(3)}}}, 65},
		"other waits may end at once": {[]Step{{Await: &Await{Drained: "victim", Timeout: seconds(100)}}}, 5},
	} {
		s := Scenario{Steps: c.steps, Settle: seconds(5), Deadline: Deadline{Fast: seconds(20)}}
		if got := s.Expected(Fast); got != seconds(c.want).D() {
			t.Errorf("%s: %s, want %ds", name, got, c.want)
		}
	}
	once := Scenario{Settle: seconds(5), Checks: []Check{{Requirement: decidedBy(func(t Times) Observation { return Absent(t.Stepped+RepeatTime).On("victim", t) })}, {Requirement: decidedBy(func(t Times) Observation { return Absent(t.Reaction()) })}}}
	if got := once.Expected(Fast); got != RepeatTime {
		t.Errorf("with a second drain to exclude: %s, want %s", got, RepeatTime)
	}
	once.Steps = []Step{{Reclaim: &Reclaim{Node: "victim"}}}
	if got := once.Expected(Fast); got != 5*time.Second {
		t.Errorf("with an instance that is gone: %s, want 5s", got)
	}
}

func TestAwaitingAtMost(t *testing.T) {
	s := Scenario{Steps: []Step{
		{Notice: &Notice{}}, {Await: &Await{Timeout: strict.Duration(time.Minute)}}, {Await: &Await{Timeout: strict.Duration(time.Second)}},
	}}
	short := s.AwaitingAtMost(10 * time.Second)
	if got := []time.Duration{short.Steps[1].Await.Timeout.D(), short.Steps[2].Await.Timeout.D()}; !slices.Equal(got, []time.Duration{10 * time.Second, time.Second}) {
		t.Errorf("timeouts %s", got)
	}
	if s.Steps[1].Await.Timeout.D() != time.Minute {
		t.Error("the original has changed")
	}
}

func TestStepsInWords(t *testing.T) {
	second := strict.Duration(time.Second)
	for want, step := range map[string]Step{
		"no action set": {},
		"notice n: state-change (stopping) for a, b":                                                        {Notice: &Notice{Name: "n", Type: "state-change", State: "stopping", Nodes: []string{"a", "b"}}},
		"notice n: spot-interruption for instance i-1, which is not in the cluster":                         {Notice: &Notice{Name: "n", Type: "spot-interruption", Instance: "i-1"}},
		"notice n: spot-interruption for an instance that is not in the cluster, with an id like that of a": {Notice: &Notice{Name: "n", Type: "spot-interruption", InstanceLike: "a"}},
		"message m straight into the queue, 10 times":                                                       {Message: &Message{Name: "m", Times: 10}},
		"wait until DNS has answered every query for 1s, at most 1s":                                        {Await: &Await{Answering: second, Timeout: second}},
		"wait until a pod of a is terminating, at most 1s":                                                  {Await: &Await{Evicting: "a", Timeout: second}},
		"the instance of a is taken at the deadline of n":                                                   {Reclaim: &Reclaim{Node: "a", At: "n"}},
		"fault f on queue: error for 1s with status 500, 3 calls of ReceiveMessage":                         {Fault: &Fault{fault.Fault{On: "queue", Name: "f", Type: "error", For: second, Status: 500, Count: 3, Actions: []string{"ReceiveMessage"}}}},
		"fault f on queue: duplicate after 1s to another replica, 1 call":                                   {Fault: &Fault{fault.Fault{On: "queue", Name: "f", Type: "duplicate", After: second, Count: 1, ToAnother: true}}},
		"the instance of a is taken without a notice":                                                       {Reclaim: &Reclaim{Node: "a"}},
		"the instance of a is taken after 1s, before any deadline":                                          {Reclaim: &Reclaim{Node: "a", After: second}},
		"notice n: spot-interruption for the instances that were launched since r":                          {Notice: &Notice{Name: "n", Type: "spot-interruption", LaunchedSince: "r"}},
		"r: the handler gets its other configuration of the feature, and is to remove a, b, after 1s":       {Do: &Do{Verb: Configure, Target: OnHandler, Name: "r", After: second, Disrupts: []string{"a", "b"}}},
		"r: the handler gets its other configuration of the feature":                                        {Do: &Do{Verb: Configure, Target: OnHandler, Name: "r"}},
		"DaemonSet d is created, whose pods request 1Gi of memory":                                          {Do: &Do{Verb: Create, Target: OnWorkload, DaemonSet: "d", Memory: "1Gi"}},
		"fault f on queue: delay by 1s":                                                                     {Fault: &Fault{fault.Fault{On: "queue", Name: "f", Type: "delay", By: second}}},
		"b: budget of app: minAvailable 4, 1s after n":                                                      {Do: &Do{Verb: Configure, Target: OnBudget, Name: "b", Pods: "app", MinAvailable: new(4), At: "n", After: second}},
		"notice n: spot-interruption, 1s old, of zone z for a terminated instance that had the name of a":   {Notice: &Notice{Name: "n", Type: "spot-interruption", FormerOf: "a", Age: second, Zone: "z"}},
		"notice n: scheduled-change of RDS (closed) in 1s as an update of m for 2 instances outside the cluster and for a": {Notice: &Notice{
			Name: "n", Type: "scheduled-change", Nodes: []string{"a"}, Health: &Health{Service: "RDS", Status: "closed", StartsIn: second, Updates: "m", Foreign: 2},
		}},
		"notice n: scheduled-change for no entity":                                                    {Notice: &Notice{Name: "n", Type: "scheduled-change", Health: &Health{NoEntities: true}}},
		"fault f on queue: black-hole for 1s, silent afterwards too":                                  {Fault: &Fault{fault.Fault{On: "queue", Name: "f", Type: "black-hole", For: second, Silent: true}}},
		"wait until f has ended, at most 1s":                                                          {Await: &Await{Ended: "f", Timeout: second}},
		"d: the handler is cut off from the Kubernetes API for 1s, and the drill continues meanwhile": {Do: &Do{Verb: CutOff, Target: OnHandler, Name: "d", For: second, Meanwhile: true}},
		"d: the handler is cut off from the Kubernetes API for 1s":                                    {Do: &Do{Verb: CutOff, Target: OnHandler, Name: "d", For: second}},
		"CoreDNS is scaled to 3, after 1s":                                                            {Do: &Do{Verb: Scale, Target: OnCoreDNS, Replicas: 3, After: second}},
		"{verb: drain, target: coredns} is not known":                                                 {Do: &Do{Verb: Drain, Target: OnCoreDNS}},
	} {
		if got := step.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A handler that is cut off for a time has a name that later steps wait for, but no call is
// hit by that.
func TestADisturbanceIsNoFault(t *testing.T) {
	s := Scenario{Steps: []Step{
		{Do: &Do{Verb: CutOff, Target: OnHandler, Name: "partition", For: strict.Duration(time.Second), Meanwhile: true}},
		{Fault: &Fault{fault.Fault{Name: "refused"}}},
		{Fault: &Fault{fault.Fault{Name: "throttled"}}},
	}}
	if got := s.Faults(); len(got) != 2 || got[0].Name != "refused" || got[1].Name != "throttled" {
		t.Errorf("got %v", got)
	}
}

// CoreDNS on spot nodes has no pod that stays if all spot workers are drained.
func TestDrainsOfAllSpotNodesLeaveNoDNSPod(t *testing.T) {
	drain := func(node string) Step { return Step{Do: &Do{Verb: Drain, Target: OnNode, Node: node}} }
	s := Scenario{
		CoreDNS: coredns.Settings{Placement: coredns.OnSpot, Replicas: 2},
		Nodes: map[string]Pick{
			"a": {Capacity: "spot"}, "b": {Capacity: "spot"}, "c": {Capacity: "spot"},
			"launched": {Capacity: "spot", Launched: &Launched{}}, "on-demand": {Capacity: "on-demand"},
		},
		Steps: []Step{drain("a"), drain("b"), drain("launched"), drain("on-demand")},
	}
	if !s.KeepsDNSPod() {
		t.Error("one spot worker is left, and no pod stays")
	}
	if s.Steps = append(s.Steps, drain("c")); s.KeepsDNSPod() {
		t.Error("all spot workers are drained, and a pod stays")
	}
	if s.CoreDNS.Placement = coredns.OnOnDemand; !s.KeepsDNSPod() {
		t.Error("the pods are on demand, and none stays")
	}
	if s.CoreDNS.Replicas = 1; s.KeepsDNSPod() {
		t.Error("the only pod is the control")
	}
}
