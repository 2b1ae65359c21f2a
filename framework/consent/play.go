package consent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// evictReason is the Reason of the events of an eviction.
const evictReason = "evict"

// Hooks is what Play needs of its caller.
type Hooks struct {
	// Record gets each action when it is done: dns.disrupted (evict), operator.acted (drain),
	// notice.put (Key: notice; without Until and Notice), and operator.said for what happens to
	// each pod. It may be nil.
	Record func(history.Event)
	// Send puts the notice of the plan into the queue. Only a notice needs it.
	Send func(context.Context) error
}

// Play inspects the cluster again, and plays the plan if nothing refuses it by now. An eviction is
// over when the API server has accepted it; a drain when the pods are gone; a notice when the
// handler has marked the node and the pods are gone, or the node is.
//
// To abort it, cancel ctx. Play puts nothing back: whatever it returns, call Restore next, with a
// context that is not cancelled. The client should allow about 50 queries a second, as that of
// kubectl does.
func Play(ctx context.Context, client kubernetes.Interface, p Plan, j *Journal, hooks Hooks) error {
	if err := p.Refused(); err != nil {
		return err
	}
	if p.Request.Action == scenarios.SendNotice && hooks.Send == nil {
		return errors.New("play a notice: nothing sends it")
	}
	if hooks.Record == nil {
		hooks.Record = func(history.Event) {}
	}
	if err := j.cluster.is(ctx, client); err != nil {
		return err
	}
	now, err := inspect(ctx, client, p.Request)
	if err != nil {
		return fmt.Errorf("inspect again: %w", err)
	}
	if err := now.plan.changedSince(p); err != nil {
		return err
	}
	if err := now.plan.Refused(); err != nil {
		return fmt.Errorf("inspected again: %w", err)
	}
	entry := now.entry()
	if err := j.before(entry); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: aborted before anything was done: %w", p.Request.Action, err)
	}
	switch p.Request.Action {
	case scenarios.EvictCoreDNS:
		return now.evict(ctx, client, hooks)
	case scenarios.DrainNode:
		return now.drain(ctx, client, entry, j, hooks)
	default:
		return now.notify(ctx, client, entry, hooks)
	}
}

// entry is what the journal needs to know before the drill.
func (i *inspection) entry() Entry {
	e := Entry{ID: rand.Text(), At: time.Now().UTC(), Action: i.plan.Request.Action}
	if i.node != nil {
		e.Node = stateOf(i.node)
	} else {
		e.Pod, e.PodUID = i.plan.Pod.String(), i.plan.PodUID
	}
	return e
}

func (i *inspection) evict(ctx context.Context, client kubernetes.Interface, hooks Hooks) error {
	pod := i.pods[0]
	hooks.Record(history.NewDNSDisrupted(history.Disruption(evictReason), history.Node(pod.Spec.NodeName), history.Pod(name(pod)), history.UID(string(pod.UID))))
	m := newMove(client, pod.Spec.NodeName, i.pods, reporter(hooks, pod.Spec.NodeName, evictReason))
	m.accepted = true
	return m.run(ctx)
}

func (i *inspection) drain(ctx context.Context, client kubernetes.Interface, e Entry, j *Journal, hooks Hooks) error {
	hooks.Record(history.NewOperatorActed("", history.DrainNode, i.node.Name, history.Instance(i.plan.Instance)))
	if changed, err := cordon(ctx, client, e); err != nil {
		if !changed {
			err = errors.Join(err, j.done())
		}
		return err
	}
	// Pods that came since the inspection need the same consent.
	on, err := podsOn(ctx, client, i.node.Name)
	if err != nil {
		return err
	}
	since := inspection{plan: Plan{Request: i.plan.Request}, pods: only(on, moved)}
	since.refuseEmptyDir()
	since.refuseBare()
	if err := since.plan.Refused(); err != nil {
		return fmt.Errorf("a pod came to node %s before it was cordoned: %w", i.node.Name, err)
	}
	return newMove(client, i.node.Name, since.pods, reporter(hooks, i.node.Name, string(history.DrainNode))).run(ctx)
}

func (i *inspection) notify(ctx context.Context, client kubernetes.Interface, e Entry, hooks Hooks) error {
	r := i.plan.Request
	if err := markNode(ctx, client, e); err != nil {
		return err
	}
	hooks.Record(history.NewNoticePut(scenarios.ObservedNotice, r.Notice.Type, i.node.Name, history.Instance(i.plan.Instance)))
	if err := hooks.Send(ctx); err != nil {
		return fmt.Errorf("send notice %s about instance %s: %w", r.Notice.Type, i.plan.Instance, err)
	}
	w := watch{client: client, before: e.Node, pods: i.pods, left: i.pods, report: reporter(hooks, i.node.Name, string(scenarios.SendNotice))}
	return wrap.Errorf(w.run(ctx), "notice %s about instance %s in %s", r.Notice.Type, i.plan.Instance, r.Queue)
}

// reporter records a line about the node.
func reporter(hooks Hooks, node, reason string) func(string) {
	return func(line string) {
		hooks.Record(history.NewOperatorPrinted(history.Operation(reason), node, line))
	}
}
