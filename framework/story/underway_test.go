package story

import (
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// An observation begins at 5 s, its command ends at 6 s, and its record at 60 s.
func TestWhatIsStillUnderWay(t *testing.T) {
	const rollout = "Deployment/kube-system/coredns"
	old := func(name string) []history.Event { // a CoreDNS pod that was there, on w-1
		return []history.Event{
			at(1, history.NewPodPresent("kube-system/"+name, name, "", "Running", history.Owner("ReplicaSet/coredns-7c6"), history.Node("w-1"), history.IP("10.0.0.1"))),
			at(1, history.NewPodReady("kube-system/"+name, name, history.Owner("ReplicaSet/coredns-7c6"))),
			at(1, history.NewEndpointReady("", "kube-system/"+name, "10.0.0.1")),
		}
	}
	created := func(seconds float64, name, owner string) history.Event {
		return at(seconds, history.NewPodCreated("kube-system/"+name, name, "", history.Owner(owner)))
	}
	terminating := at(10, history.NewPodTerminating("kube-system/a", "a", history.Owner("ReplicaSet/coredns-7c6")))
	lameduck := at(10.1, history.NewEndpointTerminating("", "kube-system/a", "10.0.0.1", true))
	gone := []history.Event{at(20, history.NewPodDeleted("kube-system/a", "a")), at(20.1, history.NewEndpointGone("", "kube-system/a", "10.0.0.1"))}
	cordoned := at(10, history.NewNodeCordoned("w-1"))
	work := at(1, history.NewPodPresent("default/web", "web", "", "Running", history.Owner("ReplicaSet/web-5f"), history.Node("w-1")))
	for name, c := range map[string]struct {
		events []history.Event
		want   string  // what is named, by comma; empty if all is over
		last   float64 // when the last of it ended
	}{
		"nothing happened":                        {old("a"), "", 5},
		"a rollout":                               {[]history.Event{at(5.2, history.NewRolloutProgressing(rollout, "0 of 2 updated"))}, rollout, 0},
		"a rollout that is complete":              {[]history.Event{at(5.2, history.NewRolloutProgressing(rollout, "")), at(30, history.NewRolloutComplete(rollout))}, "", 30},
		"a rollout that was stuck before":         {[]history.Event{at(1, history.NewRolloutProgressing(rollout, "1 of 2 updated"))}, "", 5},
		"a pod in lameduck":                       {append(old("a"), terminating, lameduck), "pod kube-system/a of CoreDNS terminates", 0},
		"a pod in lameduck, of endpoints alone":   {[]history.Event{at(1, history.NewEndpointReady("", "kube-system/a", "10.0.0.1")), lameduck}, "pod kube-system/a of CoreDNS terminates", 0},
		"a pod that is gone":                      {append(append(old("a"), terminating, lameduck), gone...), "", 20.1},
		"a new pod without a node":                {append(old("a"), created(7, "b", "ReplicaSet/coredns-9d8")), "pod kube-system/b of CoreDNS is not Ready", 0},
		"a new pod that is Ready":                 {append(old("a"), created(7, "b", "ReplicaSet/coredns-9d8"), at(9, history.NewPodReady("kube-system/b", "b"))), "", 9},
		"a pod that stops being Ready":            {append(old("a"), at(30, history.NewPodNotReady("kube-system/a", "a"))), "pod kube-system/a of CoreDNS is not Ready", 0},
		"a pod of somebody else that starts":      {append(old("a"), created(7, "other", "ReplicaSet/metrics-1")), "", 5},
		"a pod of the application that ends":      {[]history.Event{at(1, history.NewEndpointReady(scenarios.App, "default/web", "10.0.0.9")), at(9, history.NewEndpointTerminating(scenarios.App, "default/web", "10.0.0.9", true))}, "pod default/web of the application terminates", 0},
		"an eviction of any pod":                  {[]history.Event{work, at(9, history.NewPodEvicted("default/web", "web", "EvictionByEvictionAPI"))}, "pod default/web was evicted", 0},
		"a pod that was evicted and is gone":      {[]history.Event{work, at(9, history.NewPodEvicted("default/web", "web", "EvictionByEvictionAPI")), at(15, history.NewPodDeleted("default/web", "web"))}, "", 15},
		"a pod of a job that has finished":        {[]history.Event{work, at(50, history.NewPodFinished("default/web", "web", "Succeeded"))}, "", 5},
		"a node that its pods have to leave":      {[]history.Event{work, cordoned}, "node w-1 is being emptied: default/web still has to leave it", 0},
		"a node that its pods have left":          {[]history.Event{work, cordoned, at(18, history.NewPodDeleted("default/web", "web"))}, "", 18},
		"a node that is in service again":         {[]history.Event{work, cordoned, at(19, history.NewNodeUncordoned("w-1"))}, "", 5},
		"a node that was cordoned before":         {[]history.Event{work, at(2, history.NewNodeCordoned("w-1"))}, "", 5},
		"a node with a handler's taint":           {[]history.Event{work, at(9, history.NewNodeTainted("w-1", "example.com/ending", "NoSchedule"))}, "node w-1 is being emptied", 0},
		"an empty node that Karpenter removes":    {[]history.Event{at(9, history.NewNodeTainted("w-1", "karpenter.sh/disrupted", "NoSchedule"))}, "node w-1 is about to be removed", 0},
		"a node of a synthetic notice":            {[]history.Event{at(8, history.NewNoticePut(scenarios.ObservedNotice, history.Spot, "w-1")), at(9, history.NewNodeTainted("w-1", "karpenter.sh/disrupted", "NoSchedule"))}, "", 5},
		"one whose pods have to leave it":         {[]history.Event{work, at(8, history.NewNoticePut(scenarios.ObservedNotice, history.Spot, "w-1")), at(9, history.NewNodeTainted("w-1", "karpenter.sh/disrupted", "NoSchedule"))}, "node w-1 is being emptied: default/web", 0},
		"a node that was removed":                 {[]history.Event{at(9, history.NewNodeTainted("w-1", "karpenter.sh/disrupted", "NoSchedule")), at(33, history.NewNodeDeleted("w-1"))}, "", 33},
		"a node that is not Ready":                {[]history.Event{at(40, history.NewNodeNotReady("w-1", "Unknown"))}, "node w-1 is not Ready", 0},
		"a node that was not Ready before":        {[]history.Event{at(2, history.NewNodeNotReady("w-1", "Unknown"))}, "", 5},
		"a node that is Ready again":              {[]history.Event{at(9, history.NewNodeNotReady("w-1", "Unknown")), at(12, history.NewNodeReady("w-1"))}, "", 12},
		"a rollout and the pods that it replaces": {append(old("a"), at(5.2, history.NewRolloutProgressing(rollout, "")), terminating), rollout + ",kube-system/a", 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := history.History{Events: append([]history.Event{at(1, history.NewNodePresent("w-1", "")), at(5, history.NewObservationBegun("")), at(6, history.NewObservationEnded())}, c.events...)}
			h.Events = append(h.Events, at(60, history.Restore.Begins()))
			open, last := StillUnderWay(Read(scenarios.Scenario{Observe: &scenarios.Observe{}}, h))
			var names []string
			for _, u := range open {
				names = append(names, u.String())
			}
			want := strings.Split(c.want, ",")
			if c.want == "" {
				want = nil
				if last != sec(c.last) {
					t.Errorf("the last of it ended at %s, want %gs", last, c.last)
				}
			}
			if len(names) != len(want) {
				t.Fatalf("under way: %q, want %q", names, want)
			}
			for i := range want {
				if !strings.Contains(names[i], want[i]) {
					t.Errorf("under way: %q, want %q", names[i], want[i])
				}
			}
		})
	}
}

// A drill of spotdrill's own begins at 5 s. What was reclaimed, or waits for room, loses no more queries.
func TestWhatIsUnderWayInADrillOfOurOwn(t *testing.T) {
	on := func(node string) []history.Detail {
		return []history.Detail{history.Owner("ReplicaSet/coredns-7c6"), history.Node(node)}
	}
	dns := []history.Event{
		at(1, history.NewPodPresent("kube-system/a", "a", "", "Running", on("w-1")...)), at(1, history.NewPodReady("kube-system/a", "a", on("w-1")...)),
		at(1, history.NewEndpointReady("", "kube-system/a", "10.0.0.1")),
		at(1, history.NewPodPresent("app/web", "web", scenarios.App, "Running", history.Node("w-2"))), at(1, history.NewPodReady("app/web", "web", history.Node("w-2"))),
		at(1, history.NewEndpointReady(scenarios.App, "app/web", "10.0.0.9")),
	}
	terminating := at(10, history.NewPodTerminating("kube-system/a", "a", on("w-1")...))
	notReady := at(10, history.NewPodNotReady("kube-system/a", "a", on("w-1")...))
	created := func(node string) history.Event {
		return at(9, history.NewPodCreated("kube-system/b", "b", "", on(node)...))
	}
	appEnds := at(10, history.NewPodTerminating("app/web", "web", history.Node("w-2")))
	broken := []scenarios.Step{{Do: &scenarios.Do{Verb: scenarios.Configure, Target: scenarios.OnCoreDNS, Corefile: scenarios.BrokenCorefile}}}
	probe, both := &scenarios.Probe{}, &scenarios.Probe{Application: &scenarios.ApplicationProbe{}}
	for name, c := range map[string]struct {
		probe  *scenarios.Probe
		steps  []scenarios.Step
		events []history.Event
		want   string
	}{
		"nothing happened":                         {probe, nil, nil, ""},
		"a pod in lameduck":                        {probe, nil, []history.Event{terminating}, "pod kube-system/a of CoreDNS terminates since +10.000s"},
		"nothing is measured":                      {nil, nil, []history.Event{terminating}, ""},
		"its containers have ended":                {probe, nil, []history.Event{terminating, at(12, history.NewPodExited("kube-system/a", "a"))}, ""},
		"its node was reclaimed":                   {probe, nil, []history.Event{terminating, at(12, history.NewReclaimed("w-1"))}, ""},
		"its instance was started again":           {probe, nil, []history.Event{at(7, history.NewReclaimed("w-1")), at(8, history.NewOperatorActed("again", history.StartAgain, "w-1")), terminating}, "pod kube-system/a of CoreDNS terminates since +10.000s"},
		"it is not Ready":                          {probe, nil, []history.Event{notReady}, "pod kube-system/a of CoreDNS is not Ready since +10.000s"},
		"with its node":                            {probe, nil, []history.Event{notReady, at(10, history.NewNodeNotReady("w-1", "Unknown"))}, ""},
		"it refuses its Corefile":                  {probe, broken, []history.Event{notReady}, ""},
		"it refuses its Corefile and terminates":   {probe, broken, []history.Event{terminating}, "pod kube-system/a of CoreDNS terminates since +10.000s"},
		"a new pod starts":                         {probe, nil, []history.Event{created("w-3")}, "pod kube-system/b of CoreDNS is not Ready since +9.000s"},
		"a new pod finds no room":                  {probe, nil, []history.Event{created("")}, ""},
		"an application that is not measured ends": {probe, nil, []history.Event{appEnds}, ""},
		"an application that is measured ends":     {both, nil, []history.Event{appEnds}, "pod app/web of the application terminates since +10.000s"},
		"a node is being emptied":                  {probe, nil, []history.Event{at(10, history.NewNodeCordoned("w-2"))}, ""},
		"any other eviction has not ended":         {probe, nil, []history.Event{at(10, history.NewPodEvicted("app/web", "web", "EvictionByEvictionAPI", history.Node("w-2")))}, ""},
		"a rollout":                                {probe, nil, []history.Event{at(10, history.NewRolloutProgressing("Deployment/kube-system/coredns", "1 of 2"))}, "the rollout of Deployment/kube-system/coredns is not complete (1 of 2) since +10.000s"},
	} {
		t.Run(name, func(t *testing.T) {
			h := history.History{Events: slices.Concat([]history.Event{at(0, history.Arrange.Begins())}, dns, []history.Event{at(5, history.Steps.Begins())}, c.events, []history.Event{at(60, history.Restore.Begins())})}
			open, _ := StillUnderWay(Read(scenarios.Scenario{Probe: c.probe, Steps: c.steps}, h))
			var names []string
			for _, u := range open {
				names = append(names, u.String())
			}
			if got := strings.Join(names, ","); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
