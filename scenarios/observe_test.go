package scenarios

import (
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// at is an offset of so many seconds.
func at(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

func TestUntilWhenADrillIsRecorded(t *testing.T) {
	deadline := at(130)
	events := []history.Event{
		history.NewNodeRole("victim", "worker"),
		history.NewNodeRole("bystander", "worker2"),
		history.NewFaultBegun("outage", "", history.At(at(5))),
		history.NewNoticePut("reclaim", "", "worker", history.At(at(10)), history.Until(deadline)),
		history.NewMessagePut("garbage", "", history.At(at(12))),
		history.NewBudgetSet("freed", "app", history.At(at(20))),
		history.Settle.Begins(history.At(at(40))),
	}
	ended := history.NewFaultEnded("outage", "", history.At(at(30)))
	reclaimed := history.NewReclaimed("worker", history.At(at(38)))
	second := strict.Duration(time.Second)
	for name, c := range map[string]struct {
		check Check
		then  []history.Event
		want  int // seconds
		early bool
	}{
		"from the notice":                          {Check{Marked: &Marked{Node: "victim", Notice: "reclaim", Within: 5 * second}}, nil, 15, true},
		"from the end of the fault":                {Check{Deleted: &Deleted{Of: "reclaim", After: "outage", Within: 50 * second}}, []history.Event{ended}, 80, true},
		"a fault that lasts, from its end to be":   {Check{Deleted: &Deleted{Of: "garbage", After: "outage", Within: 50 * second}}, nil, 115, true},
		"from the message":                         {Check{Deleted: &Deleted{Of: "garbage", Within: 50 * second}}, nil, 62, true},
		"to the deadline":                          {Check{Drained: &Drained{Node: "victim", Notice: "reclaim"}}, nil, 130, true},
		"to a limit before the deadline":           {Check{Drained: &Drained{Node: "victim", Notice: "reclaim", Within: 20 * second}}, nil, 30, true},
		"an instance that starts again":            {Check{Drained: &Drained{Node: "victim", Notice: "reclaim"}}, []history.Event{reclaimed, history.NewOperatorActed("", history.StartAgain, "worker", history.At(at(39)))}, 130, true},
		"not beyond the loss of the instance":      {Check{Drained: &Drained{Node: "victim", Notice: "reclaim"}}, []history.Event{reclaimed}, 38, true},
		"replacements, also beyond it":             {Check{Replaced: &Replaced{Node: "victim", Notice: "reclaim"}}, []history.Event{reclaimed}, 130, true},
		"from the change of a budget":              {Check{Resumed: &Resumed{Node: "victim", Budget: "freed", Within: 15 * second}}, nil, 35, true},
		"from the loss of the instance":            {Check{EndpointLeft: &EndpointLeft{Node: "victim", AtLeast: 20 * second}}, []history.Event{reclaimed}, 58, true},
		"a second drain, from the last step":       {Check{DrainedOnce: &DrainedOnce{Node: "victim"}}, nil, 50, false},
		"no second drain of what is gone":          {Check{DrainedOnce: &DrainedOnce{Node: "victim"}}, []history.Event{reclaimed}, 38, false},
		"a pod that comes, from the last step":     {Check{NotScheduled: &NotScheduled{Node: "victim", Notice: "reclaim"}}, nil, 50, false},
		"a reaction, from its last possible cause": {Check{Untouched: &Untouched{Node: "bystander"}}, []history.Event{ended}, 35, false},
		"pods that a drain may take at its end":    {Check{DaemonPodsLeft: &DaemonPodsLeft{Node: "victim"}}, nil, 45, false},
		"whatever was recorded":                    {Check{QueueEmpty: &QueueEmpty{}}, nil, 0, false},
		"no check":                                 {Check{}, nil, 0, false},
	} {
		s := Scenario{Steps: []Step{{Fault: &Fault{fault.Fault{Name: "outage", For: 60 * second}}}}}
		until, early := c.check.DecidedBy(s.Times(slices.Concat(events, c.then)))
		if until != at(c.want) || early != c.early {
			t.Errorf("%s: %s (early %t), want %ds (early %t)", name, until, early, c.want, c.early)
		}
	}
}

func TestWhatADrillWaitsFor(t *testing.T) {
	deleted := Check{Deleted: &Deleted{Of: "reclaim", Within: strict.Duration(at(50))}}
	s := Scenario{Checks: []Check{deleted, {DrainedOnce: &DrainedOnce{Node: "victim"}}, {QueueEmpty: &QueueEmpty{}}}}
	times := Times{Sent: map[string]time.Duration{"reclaim": at(10)}, Stepped: at(20)}
	if until, open := s.Undecided(times, at(25)); until != at(30) || len(open) != 1 || open[0].Deleted != deleted.Deleted {
		t.Errorf("at 25 s: until %s, open %+v", until, open)
	}
	if until, open := s.Undecided(times, at(60)); until != at(30) || len(open) != 0 {
		t.Errorf("at 60 s: until %s, open %+v", until, open)
	}
}
