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
		NewConcurrentDrill(other, Pod("workload-2")),
		NewConcurrentDrill(other, Node("spot-2"), Instance("i-2")),
		NewConcurrentDrill(other, Notice("notice-2")),
		NewConcurrentDrill(other, Message("body-2")),
	}
	theirs := []Event{
		NewNodeCordoned("spot-2"),
		NewPodEvicted("workload-2/app", "", "", Node("spot-2")),
		NewPodReady("workload-2/app", "", Node("spot-3")),
		NewPodEvicted("kube-system/agent", "", "", Node("spot-2")),
		NewClusterEvent("", "", Pod("workload-2/app")),
		NewSQSReceived("", "m-2", "notice-2"),
		NewSQSDeleted("", "m-2", ""),
		NewSQSReceived("", "body-2", ""),
	}
	ours := []Event{
		Steps.Begins(),
		NewNodeCordoned("spot-1"),
		NewNodeCordoned("spot-3"),
		NewPodEvicted("workload/app", "", "", Node("spot-1")),
		NewPodEvicted("workload-20/app", "", "", Node("spot-1")),
		NewSQSReceived("", "m-1", "notice-1"),
		NewSQSDeleted("", "m-1", ""),
		NewSQSCall("", "ReceiveMessage", ""),
		NewQueueDepth(),
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
	if alone := append(append([]Event{}, ours...), theirs...); !reflect.DeepEqual(Own(alone), alone) || SharedCluster(alone) || !SharedCluster(all) {
		t.Error("a drill that was played alone has lost events, or counts as not played alone")
	}
}
