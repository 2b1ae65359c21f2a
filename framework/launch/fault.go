package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Fault ends instances that are launched from now on before their nodes register, as EC2 does
// when a volume cannot be decrypted. It ends after its time or its last instance, whichever
// comes first.
type Fault struct {
	Name  string        // as events call it
	Count int           // number of instances; 0 for no limit
	For   time.Duration // 0 for no limit
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
	l.happened(a.event(history.FaultBegun))
	if f.For > 0 {
		a.timer = time.AfterFunc(f.For, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.endFault(a, "time")
		})
	}
	return nil
}

func (a *activeFault) event(kind history.Kind) history.Event {
	return history.Event{Kind: kind, Key: a.Name, Reason: string(history.EndedLaunch)}
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
	e := a.event(history.FaultEnded)
	e.Reason = why
	l.happened(e)
}

var errEnded = errors.New("it ended before it registered, because a fault of the drill says so")

// fails reports whether a fault ends the instance, and counts it. It is called with mu.
func (l *Controller) fails(i cloud.Launched) bool {
	a := l.fault
	if a == nil {
		return false
	}
	e := a.event(history.FaultHit)
	e.Instance, e.Action = i.ID, "launch"
	l.happened(e)
	l.failed[i.ID] = errEnded
	l.failure(i.ID, "", errEnded)
	a.left--
	if a.Count > 0 && a.left == 0 {
		l.endFault(a, "count")
	}
	return true
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
