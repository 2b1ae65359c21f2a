package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Fault is what goes wrong with instances that are launched from now on. It ends after its time
// or its last instance, whichever comes first.
type Fault struct {
	Name  string            // as events call it
	Type  history.FaultType // one of those of instances
	Count int               // number of instances; 0 for no limit
	For   time.Duration     // 0 for no limit
}

// activeFault is a fault that has begun and not ended.
type activeFault struct {
	Fault
	left  int
	timer *time.Timer // nil if For is 0
}

// Begin begins a fault. There is one at a time.
func (l *Controller) Begin(f Fault) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault != nil {
		return fmt.Errorf("begin fault %s: fault %s has not ended", f.Name, l.fault.Name)
	}
	a := &activeFault{Fault: f, left: f.Count}
	l.fault = a
	l.happened(history.NewFaultBegun(a.Name, a.Type))
	if f.For > 0 {
		a.timer = time.AfterFunc(f.For, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.endFault(a, "time")
		})
	}
	return nil
}

// endFault ends the fault unless it has ended already. It is called with mu.
func (l *Controller) endFault(a *activeFault, why string) {
	if a == nil || l.fault != a {
		return
	}
	l.fault = nil
	if a.timer != nil {
		a.timer.Stop()
	}
	l.happened(history.NewFaultEnded(a.Name, why))
}

// Why an instance that a fault hits has no node.
var (
	errEnded    = errors.New("it ended before it registered, because a fault of the drill says so")
	errUnjoined = errors.New("it runs and never registers, because a fault of the drill says so")
)

// fails returns the fault that hits the instance, and counts it; "" for none. It is called
// with mu.
func (l *Controller) fails(i cloud.Launched) history.FaultType {
	a := l.fault
	if a == nil {
		return ""
	}
	e := history.NewFaultHit(a.Name, a.Type)
	e.Instance, e.Action = i.ID, "launch"
	l.happened(e)
	switch a.Type {
	case history.EndedLaunch:
		l.failed[i.ID] = errEnded
	case history.UnjoinedLaunch:
		l.failed[i.ID], l.unjoined[i.ID] = errUnjoined, true
	}
	if err := l.failed[i.ID]; err != nil {
		l.failure(i.ID, "", err)
	}
	a.left--
	if a.Count > 0 && a.left == 0 {
		l.endFault(a, "count")
	}
	return a.Type
}

// endUnjoined records which instances that run without a node are terminated now. It is called
// with mu.
func (l *Controller) endUnjoined(instances []cloud.Launched) {
	for id := range l.unjoined {
		if !runs(instances, id) {
			delete(l.unjoined, id)
			l.happened(history.NewInstanceEnded(id, ""))
		}
	}
}

// endLaunch ends an instance that has no node. EventBridge gets the change of its state: EC2
// sends it, LocalStack does not.
func (l *Controller) endLaunch(ctx context.Context, id string) {
	err := l.aws.Terminate(ctx, []string{id})
	if err == nil {
		_, err = l.aws.Put(ctx, cloud.Notice{Type: history.StateChange, State: "terminated", Instances: []string{id}})
	}
	if err != nil && ctx.Err() == nil {
		l.log("  end instance %s: %v", id, err)
	}
}
