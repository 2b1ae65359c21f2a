package launch

import (
	"context"
	"errors"
	"fmt"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Begin begins a fault of what is launched from now on.
func (l *Controller) Begin(f fault.Fault) error {
	if !f.Type.OfInstances() {
		return fmt.Errorf("%s is no fault of an instance", f.Type)
	}
	_, err := l.faults.Begin(f)
	return err
}

// Why an instance that a fault hits has no node.
var (
	errEnded    = errors.New("it ended before it registered, because a fault of the drill requires it")
	errUnjoined = errors.New("it runs and never registers, because a fault of the drill requires it")
)

// fails returns the fault that hits the instance, and counts it; "" for none. It is called
// with mu.
func (l *Controller) fails(i cloud.Launched) history.FaultType {
	f := l.faults.Take(func(fault.Fault) bool { return true })
	if f == nil {
		return ""
	}
	defer l.faults.Done(f)
	l.happened(f.Hit(history.Instance(i.ID), history.Action("launch")))
	switch f.Type {
	case history.EndedLaunch:
		l.failed[i.ID] = errEnded
	case history.UnjoinedLaunch:
		l.failed[i.ID], l.unjoined[i.ID] = errUnjoined, true
	}
	if err := l.failed[i.ID]; err != nil {
		l.failure(i.ID, "", err)
	}
	return f.Type
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
