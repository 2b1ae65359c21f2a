package verdict

import (
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// after is an offset of so many seconds.
func after(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

func TestUntilWhenADrillIsRecorded(t *testing.T) {
	deadline := after(130)
	events := []history.Event{
		history.NewNodeRole("victim", "worker"),
		history.NewNodeRole("bystander", "worker2"),
		history.NewFaultBegun("outage", "", history.At(after(5))),
		history.NewNoticePut("reclaim", "", "worker", history.At(after(10)), history.Until(deadline)),
		history.NewMessagePut("garbage", "", history.At(after(12))),
		history.NewBudgetSet("freed", "app", history.At(after(20))),
		history.Settle.Begins(history.At(after(40))),
	}
	ended := history.NewFaultEnded("outage", "", history.At(after(30)))
	reclaimed := history.NewReclaimed("worker", history.At(after(38)))
	second := strict.Duration(time.Second)
	for name, c := range map[string]struct {
		check scenarios.Check
		then  []history.Event
		want  int // seconds
		early bool
	}{
		"from the notice":                          {Require(Marked{Node: "victim", Notice: "reclaim", Within: 5 * second}), nil, 15, true},
		"from the end of the fault":                {Require(Deleted{Of: "reclaim", After: "outage", Within: 50 * second}), []history.Event{ended}, 80, true},
		"a fault that lasts, from its end to be":   {Require(Deleted{Of: "garbage", After: "outage", Within: 50 * second}), nil, 115, true},
		"from the message":                         {Require(Deleted{Of: "garbage", Within: 50 * second}), nil, 62, true},
		"to the deadline":                          {Require(Drained{Node: "victim", Notice: "reclaim"}), nil, 130, true},
		"to a limit before the deadline":           {Require(Drained{Node: "victim", Notice: "reclaim", Within: 20 * second}), nil, 30, true},
		"an instance that starts again":            {Require(Drained{Node: "victim", Notice: "reclaim"}), []history.Event{reclaimed, history.NewOperatorActed("", history.StartAgain, "worker", history.At(after(39)))}, 130, true},
		"not beyond the loss of the instance":      {Require(Drained{Node: "victim", Notice: "reclaim"}), []history.Event{reclaimed}, 38, true},
		"replacements, also beyond it":             {Require(Replaced{NodeNotice{Node: "victim", Notice: "reclaim"}}), []history.Event{reclaimed}, 130, true},
		"from the change of a budget":              {Require(Resumed{Node: "victim", Budget: "freed", Within: 15 * second}), nil, 35, true},
		"from the loss of the instance":            {Require(EndpointStays{Node: "victim", AtLeast: 20 * second}), []history.Event{reclaimed}, 58, true},
		"a second drain, from the last step":       {Require(DrainedOnce{Node: "victim"}), nil, 50, false},
		"no second drain of what is gone":          {Require(DrainedOnce{Node: "victim"}), []history.Event{reclaimed}, 38, false},
		"a pod that comes, from the last step":     {Require(NotScheduled{NodeNotice{Node: "victim", Notice: "reclaim"}}), nil, 50, false},
		"a reaction, from its last possible cause": {Require(Untouched{Node: "bystander"}), []history.Event{ended}, 35, false},
		"pods that a drain may take at its end":    {Require(NoEviction{Node: "victim", DaemonPods: true}), nil, 45, false},
		"whatever was recorded":                    {Require(QueueEmpty{}), nil, 0, false},
	} {
		s := scenarios.Scenario{Steps: []scenarios.Step{{Fault: &scenarios.Fault{Fault: fault.Fault{Name: "outage", For: 60 * second}}}}}
		needs := c.check.DecidedBy(s.Times(slices.Concat(events, c.then)))
		if needs.Until != after(c.want) || needs.Early != c.early {
			t.Errorf("%s: %s (early %t), want %ds (early %t)", name, needs.Until, needs.Early, c.want, c.early)
		}
	}
}
