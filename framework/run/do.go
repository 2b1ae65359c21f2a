package run

import (
	"context"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// do does something to a target when its time has come, and returns when it is done.
func (r *runner) do(ctx context.Context, d scenarios.Do) error {
	since := r.rec.Clock().Now()
	if d.At != "" {
		since = r.notices[d.At].put
	}
	if d.At != "" || d.After > 0 {
		if err := r.sleepUntil(ctx, since+d.After.D()); err != nil {
			return err
		}
	}
	switch d.Target {
	case scenarios.OnHandler:
		if d.Verb == scenarios.Configure {
			return r.reconfigure(ctx, d)
		}
		return r.disturb(ctx, d)
	case scenarios.OnNode, scenarios.OnKubelet, scenarios.OnInstance:
		return r.operate(ctx, d)
	case scenarios.OnCoreDNS:
		return r.disrupt(ctx, d)
	case scenarios.OnWorkload:
		return r.deploy(ctx, d)
	case scenarios.OnBudget:
		return r.changeBudget(ctx, d)
	case scenarios.OnAddOn:
		if d.Verb == scenarios.Configure {
			return r.setValues(ctx, d)
		}
		return r.upgrade(ctx, d)
	case scenarios.OnCluster:
		return r.grow(ctx, d)
	}
	return nil
}

// A history has its own words for what was done, which stay as they are: older ones are judged too.

// disturbance is the word of what is done to the handler.
func disturbance(d scenarios.Do) history.Disturbance {
	return map[scenarios.Verb]history.Disturbance{
		scenarios.Kill: history.KillHandler, scenarios.Restart: history.UpdateHandler, scenarios.CutOff: history.CutOffHandler,
		scenarios.Scale: history.ScaleHandler, scenarios.Delete: history.TerminateHandler, scenarios.Retire: history.RetireHandler,
		scenarios.Move: history.MoveHandler, scenarios.Stop: history.StopHandler,
	}[d.Verb]
}

// operation is the word of what is done to a node, its kubelet or its instance.
func operation(d scenarios.Do) history.Operation {
	switch d.Verb {
	case scenarios.Uncordon:
		if d.Untaint {
			return history.ReadmitNode
		}
		return history.UncordonNode
	case scenarios.Join:
		if d.WithoutProviderID {
			return history.RejoinNoID
		}
		return history.RejoinNode
	}
	return map[scenarios.Verb]history.Operation{
		scenarios.Drain: history.DrainNode, scenarios.Delete: history.DeleteNode, scenarios.Label: history.Initialize,
		scenarios.Unlabel: history.Uninitialize, scenarios.Stop: history.StopKubelet, scenarios.Start: history.StartAgain,
	}[d.Verb]
}

// disruption is the word of what is done to CoreDNS.
func disruption(d scenarios.Do) history.Disruption {
	switch {
	case d.Placement != "":
		return history.MisplaceDNS
	case d.Corefile == scenarios.BrokenCorefile:
		return history.BreakCorefile
	case d.Corefile == scenarios.SlowCorefile:
		return history.ReloadDNS
	case d.Verb == scenarios.Configure:
		return history.EditLameduck
	}
	return map[scenarios.Verb]history.Disruption{
		scenarios.Delete: history.DeleteDNSPods, scenarios.Kill: history.KillDNSPods, scenarios.Restart: history.RestartDNS, scenarios.Scale: history.ScaleDNS,
	}[d.Verb]
}
