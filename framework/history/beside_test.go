package history

import (
	"reflect"
	"testing"
)

// What belongs to the other drill is left out; what belongs to none, and what names
// the other drill, stays.
func TestOwn(t *testing.T) {
	const other = "another-scenario"
	beside := []Event{
		{Kind: RunBeside, Key: other, Pod: "workload-2"},
		{Kind: RunBeside, Key: other, Node: "spot-2", Instance: "i-2"},
		{Kind: RunBeside, Key: other, Notice: "notice-2"},
		{Kind: RunBeside, Key: other, Message: "body-2"},
	}
	theirs := []Event{
		{Kind: NodeCordoned, Node: "spot-2"},
		{Kind: PodEvicted, Pod: "workload-2/app", Node: "spot-2"},
		{Kind: PodReady, Pod: "workload-2/app", Node: "spot-3"},
		{Kind: PodEvicted, Pod: "kube-system/agent", Node: "spot-2"},
		{Kind: ClusterEvent, Pod: "workload-2/app"},
		{Kind: SQSReceived, Notice: "notice-2", Message: "m-2"},
		{Kind: SQSDeleted, Message: "m-2"},
		{Kind: SQSReceived, Message: "body-2"},
	}
	ours := []Event{
		{Kind: RunPhase, Key: "steps"},
		{Kind: NodeCordoned, Node: "spot-1"},
		{Kind: NodeCordoned, Node: "spot-3"},
		{Kind: PodEvicted, Pod: "workload/app", Node: "spot-1"},
		{Kind: PodEvicted, Pod: "workload-20/app", Node: "spot-1"},
		{Kind: SQSReceived, Notice: "notice-1", Message: "m-1"},
		{Kind: SQSDeleted, Message: "m-1"},
		{Kind: SQSCall, Action: "ReceiveMessage"},
		{Kind: QueueDepth},
	}
	var all []Event
	for i := range max(len(theirs), len(ours)) {
		if i < len(ours) {
			all = append(all, ours[i])
		}
		if i < len(theirs) {
			all = append(all, theirs[i])
		}
	}
	// A notice's id may be known only after its message went round.
	all = append(all, beside...)
	if got, want := Own(all), append(append([]Event{}, ours...), beside...); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if alone := append(append([]Event{}, ours...), theirs...); !reflect.DeepEqual(Own(alone), alone) || BesideOthers(alone) || !BesideOthers(all) {
		t.Error("a drill that was played alone has lost events, or is said not to have been")
	}
}
