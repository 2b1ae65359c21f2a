package launch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

func TestAFaultEndsTheNextLaunches(t *testing.T) {
	var events []string
	record := func(e history.Event) {
		events = append(events, strings.Join(strings.Fields(fmt.Sprint(e.Kind, " ", e.Step(), " ", e.FaultType(), e.FaultEnd(), " ", e.Instance)), " "))
	}
	l := &Controller{failed: map[string]error{}, unjoined: map[string]bool{}, log: func(string, ...any) {}, faults: fault.New(record), record: map[*func(history.Event)]bool{&record: true}}
	fails := func(id string) history.FaultType {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.fails(cloud.Launched{ID: id})
	}
	if fails("i-0") != "" {
		t.Error("a launch failed without a fault")
	}
	if err := l.Begin(fault.Fault{On: history.OnEC2, Name: "ends", Type: history.EndedLaunch, Count: 1}); err != nil {
		t.Fatal(err)
	}
	if err := l.Begin(fault.Fault{On: history.OnEC2, Name: "ends", Type: history.UnreadyLaunch, Count: 1}); err == nil {
		t.Error("two faults of one name at once are no error")
	}
	if err := l.Begin(fault.Fault{On: history.OnEC2, Name: "none", Type: history.NoCapacity, Count: 1}); err == nil {
		t.Error("the controller answers no launch, and has begun a fault of the answers")
	}
	if fails("i-1") != history.EndedLaunch || fails("i-2") != "" {
		t.Error("want the first launch to fail, and no other")
	}
	if l.failed["i-1"] == nil || l.failed["i-2"] != nil {
		t.Errorf("failed are %v", l.failed)
	}
	want := []string{
		"fault.begun ends ended-launch", "fault.hit ends ended-launch i-1", "instance.failed i-1", "fault.ended ends count",
	}
	if !slices.Equal(events, want) {
		t.Errorf("recorded %q, want %q", events, want)
	}
}

func TestAnUnjoinedInstanceRunsUntilItIsTerminated(t *testing.T) {
	var ended []string
	record := func(e history.Event) {
		if e.Kind == history.InstanceEnded {
			ended = append(ended, e.Instance)
		}
	}
	l := &Controller{failed: map[string]error{}, unjoined: map[string]bool{}, log: func(string, ...any) {}, faults: fault.New(record), record: map[*func(history.Event)]bool{&record: true}}
	if err := l.Begin(fault.Fault{On: history.OnEC2, Name: "never", Type: history.UnjoinedLaunch, Count: 1}); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	launched := []cloud.Launched{{ID: "i-1"}}
	if got := l.fails(launched[0]); got != history.UnjoinedLaunch {
		t.Fatalf("the launch is hit by %q", got)
	}
	if p := planFor([]spare{{name: "w5", state: parked}}, launched, l.failed); len(p.join) > 0 {
		t.Errorf("it joins: %+v", p)
	}
	l.endUnjoined(launched)
	if len(ended) > 0 {
		t.Error("it ended while it runs")
	}
	launched[0].Ended = true
	l.endUnjoined(launched)
	l.endUnjoined(nil)
	if !slices.Equal(ended, []string{"i-1"}) {
		t.Errorf("ended are %q, want i-1 once", ended)
	}
}
