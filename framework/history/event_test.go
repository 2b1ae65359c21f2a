package history

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// events are one of each kind, as what plays a drill makes them.
func events() []Event {
	const said, until = 2 * time.Second, 2 * time.Minute
	n := func(name Number, value float64) Numbers { return Numbers{name: value} }
	return []Event{
		Steps.Begins(),
		NewRunError("why"),
		NewRunEnded(),
		NewConcurrentDrill("other", Node("w1")),
		NewNodeRole("victim", "w1", Instance("i-1")),
		NewNodePrepared("taint", "example.com/a", "NoSchedule"),
		NewOperatorActed("by-hand", "drain", "w1", Instance("i-1")),
		NewOperatorPrinted("drain", "w1", "pod/a evicted"),
		NewDeployed("late"),
		NewBudgetSet("relaxed", "app", With(n(MinAvailable, 1))),
		NewNoticePut("notice", "spot-interruption", "w1", At(1), Until(until), Notice("n-1"), Instance("i-1")),
		NewMessagePut("raw", "m-1"),
		NewReclaimed("w1", Instance("i-1"), With(n(Took, 0.5))),
		NewNodeShutdown("w1", Instance("i-1")),
		NewAwaitDone("drained"),
		NewAwaitLate("drained", Note("not within 60s")),
		NewRestored(Note("w1 without taint a")),

		NewNodePresent("w1", "spot", Instance("i-1")),
		NewNodeCordoned("w1"),
		NewNodeUncordoned("w1"),
		NewNodeTainted("w1", "a", "NoSchedule"),
		NewNodeUntainted("w1", "a", "NoSchedule"),
		NewNodeReady("w1"),
		NewNodeNotReady("w1", "Unknown"),
		NewNodeDeleted("w1"),
		NewNodeLabelled("w1", "l", "new", Note(`"old"`)),
		NewNodeUnlabelled("w1", "l", Note(`"old"`)),
		NewNodeAnnotated("w1", "l", "new", Note(`"old"`)),
		NewNodeUnannotated("w1", "l", Note(`"old"`)),
		NewInstanceLaunched("i-1", "m5.large", "eu-west-1a", Owner("NodePool/p")),
		NewInstanceJoined("i-1", "w1", With(n(Took, 3))),
		NewInstanceFailed("i-1", "w1", "why"),
		NewInstanceEnded("i-1", "w1"),

		NewPodPresent("ns/a", "u", "app", "Running", Node("w1"), Owner("ReplicaSet/a"), IP("10.0.0.1"), Note("t"), With(n(Grace, 30))),
		NewPodCreated("ns/a", "u", "app", With(n(Grace, 30))),
		NewPodScheduled("ns/a", "u", Node("w1")),
		NewPodReady("ns/a", "u", IP("10.0.0.1")),
		NewPodNotReady("ns/a", "u"),
		NewPodEvicted("ns/a", "u", "EvictionByEvictionAPI", Note("by API"), Said(said)),
		NewPodTerminating("ns/a", "u", Said(said), With(n(Grace, 30))),
		NewPodSignalled("ns/a", "u", Said(said)),
		NewPodLameduck("ns/a", "u", Said(said), With(n(LameduckTime, 5))),
		NewPodExited("ns/a", "u", With(n(ExitCode, 2))),
		NewPodFinished("ns/a", "u", "Succeeded"),
		NewPodRestarted("ns/a", "u", "OOMKilled", With(n(Restarts, 1))),
		NewPodDeleted("ns/a", "u"),

		NewEndpointReady("web", "ns/a", "10.0.0.1"),
		NewEndpointNotReady("web", "ns/a", "10.0.0.1", Conditions{Serving: true}),
		NewEndpointTerminating("web", "ns/a", "10.0.0.1", true),
		NewEndpointTerminating("web", "ns/a", "10.0.0.1", false),
		NewEndpointGone("web", "ns/a", "10.0.0.1"),
		NewWatchLost("nodes", Said(said)),
		NewWatchBack("nodes", Note("missed")),
		NewClusterEvent("Node", "Draining", Node("w1"), Note("text"), Owner("karpenter"), Said(said)),
		NewRolloutProgressing("Deployment/kube-system/coredns", "1 of 2 updated"),
		NewRolloutComplete("Deployment/kube-system/coredns"),
		NewClusterGrown(With(n(VirtualNodes, 100))),

		NewSQSCall("q", "ReceiveMessage", "AccessDeniedException", Account("1"), Status(403), Note("n"), IP("10.0.0.1"), By("second"), With(n(Took, 1))),
		NewSQSReceived("q", "m-1", "n-1", IP("10.0.0.1")),
		NewSQSDeleted("q", "m-1", "n-1"),
		NewLifecycleActed("CompleteLifecycleAction", "hook", "i-1", "CONTINUE", Note("token")),
		NewQueueDepth(With(n(Visible, 1))),

		NewFaultBegun("f", "throttle", Node("w1")),
		NewFaultHit("f", "throttle", Action("patch"), Resource("/nodes"), Node("w1")),
		NewFaultEnded("f", "count"),

		NewHandlerDisturbed("d", "kill", Pod("h/h-1"), UID("u"), Node("w1")),
		NewHandlerLeftAlone("d", "cut-off", With(n(Dropped, 7))),
		NewHandlerReconfigured("c", "drift", Node("w1")),
		NewHandlerWrote("h-1", "w1", "nodeclaims/a", Owner("user"), Action("delete"), Said(said)),
		NewHandlerTook("h-1", "ns/a", Owner("user"), Action("evict"), Said(said)),
		NewAuditRead("user"),
		NewRBACRule("ClusterRole r", "get,list", "/nodes,/pods"),
		NewRBACUsed("user", "get", "/nodes", With(n(Requests, 2))),

		NewProberStarted("w1", With(n(ClockBound, 0.001))),
		NewProberEnded("w1", Note("behind"), With(n(Asked, 9))),
		NewProberResumed("w1", "reset", Pod("ns/p"), With(n(Took, 1))),
		NewProberBroke("w1", "reset", Pod("ns/p")),
		NewObservationBegun("kubectl drain w1"),
		NewObservationEnded(With(n(Took, 1))),
		NewTargetFound("w1", "kube-dns", "10.96.0.10", Pod("ns/p"), Note("a. A")),
		NewControlChosen("web", "ns/c", "10.0.0.2"),
		NewFlowsRecorded("w1", With(n(FlowCount, 3))),
		NewInsertsFailed("w1", With(n(InsertFailed, 3))),
		NewProcessorWaited("ns/p", With(n(Waited, 0.25))),
		NewProcessorStolen(With(n(Stolen, 0.5))),
		NewDatagramsDropped("ns/p", With(n(Dropped, 3))),
		NewMemoryUsed("ns/p", With(n(Bytes, 4096))),
		NewWaitsRecorded(Note("why")),

		NewDNSDisrupted("scale", Node("w1"), With(n(Replicas, 3))),
		NewCorefileRead("ns/p", With(n(Took, 1))),
		NewAddOnUpgrading("coredns", "OVERWRITE"),
		NewAddOnUpgraded("coredns", "OVERWRITE", With(n(Took, 1))),
		NewAddOnRefused("coredns", "NONE", Note("fields")),
		NewAddOnSet("vpc-cni", With(n(Took, 1))),

		NewAPICall("patch", "/nodes", []string{"unschedulable", "a"}, Node("w1"), IP("10.0.0.1"), Status(200), Fault("f"), With(n(Took, 1))),
		NewAPICall("patch", "/nodes", []string{"a"}, Status(200)).Folded(n(Calls, 4)),
		NewAPIWatching("/leases", Object("ns"), IP("10.0.0.1")),
		NewAPIRecorded(At(5)),
		NewMetadataRead("w1", "spot/action", "spot-interruption", Until(until), Instance("i-1"), Action("GET"), Status(200), Fault("f"), With(n(Requests, 2))),
	}
}

// Recorded histories are judged for years: what an event looks like on disk does not change.
func TestEventsOnDisk(t *testing.T) {
	file, err := os.ReadFile("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(file)), "\n")
	made := map[Kind]bool{}
	for i, e := range events() {
		made[e.Kind] = true
		got, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(want) || string(got) != want[i] {
			t.Errorf("line %d is missing or different: %s", i+1, got)
		}
	}
	if len(want) != len(events()) {
		t.Errorf("%d lines for %d events", len(want), len(events()))
	}
	for _, kind := range kinds(t) {
		if !made[kind] {
			t.Errorf("%s: none is made here", kind)
		}
	}
}

// kinds are the kinds that this package declares.
func kinds(t *testing.T) (kinds []Kind) {
	files, err := filepath.Glob("event_*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Kind" {
				kind, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				kinds = append(kinds, Kind(kind))
			}
			return true
		})
	}
	return kinds
}

// Each reader answers for its kinds, and is empty for all others.
func TestReaders(t *testing.T) {
	readers := []func(Event) string{
		Event.ConcurrentScenario, Event.Role, Event.DaemonSet, Event.Awaited, Event.Step, Event.Group, Event.Capacity, Event.ReadyStatus, Event.InstanceType, Event.Zone,
		Event.PodPhase, Event.Service, Event.Watch, Event.KubernetesReason, Event.Queue, Event.Hook, Event.LifecycleResult, Event.FaultEnd, Event.Feature,
		Event.HandlerPod, Event.RBACRole, Event.RBACObject, Event.Target, Event.AddOn, Event.MetadataPath, Event.Workload,
		func(e Event) string { return string(e.Phase()) },
		func(e Event) string { return string(e.Operation()) },
		func(e Event) string { return string(e.NoticeType()) },
		func(e Event) string { return string(e.ErrorCode()) },
		func(e Event) string { return string(e.FaultType()) },
		func(e Event) string { return string(e.Disturbance()) },
		func(e Event) string { return string(e.Disruption()) },
		func(e Event) string { return e.Setting().Key },
		func(e Event) string { return e.Setting().Value },
		func(e Event) string { return strings.Join(e.Marks(), ",") },
	}
	for _, e := range events() {
		var got []string
		for _, read := range readers {
			if answer := read(e); answer != "" {
				got = append(got, answer)
			}
		}
		want := []string{e.key.Text, e.reason.Text}
		switch e.Kind {
		case ClusterEvent: // see About
			want = want[1:]
		case EndpointNotReady, EndpointTerminating, HandlerWrote: // see Conditions and WroteNode
			want = want[:1]
		}
		want = slices.DeleteFunc(want, func(s string) bool { return s == "" })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the readers answer %q, want %q", e.Kind, got, want)
		}
	}
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"an event about a node", NewClusterEvent("Node", "Draining").About("Node"), true},
		{"an event about a pod", NewClusterEvent("Pod", "Draining").About("Node"), false},
		{"a node that is no event", NewNodePresent("w1", "Node").About("Node"), false},
		{"a write to the node", NewHandlerWrote("h-1", "w1", "").WroteNode(), true},
		{"a write to another object", NewHandlerWrote("h-1", "w1", "nodeclaims/a").WroteNode(), false},
		{"an eviction", NewHandlerTook("h-1", "ns/a").WroteNode(), false},
		{"an endpoint that is not ready", NewEndpointNotReady("", "ns/a", "", Conditions{Serving: true}).Conditions(), Conditions{Serving: true}},
		{"one that ends", NewEndpointNotReady("", "ns/a", "", Conditions{Terminating: true}).Conditions(), Conditions{Terminating: true}},
		{"one that ends and serves", NewEndpointTerminating("", "ns/a", "", true).Conditions(), Conditions{true, true}},
		{"one that ends and does not serve", NewEndpointTerminating("", "ns/a", "", false).Conditions(), Conditions{Terminating: true}},
		{"one that is ready", NewEndpointReady("", "ns/a", "").Conditions(), Conditions{}},
		{"what was prepared", NewNodePrepared(PreparedTaint, "a", "").Preparation(), PreparedTaint},
		{"what was not", NewSQSCall("", "taint", "").Preparation(), Preparation("")},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}
