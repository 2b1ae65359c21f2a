package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/scenarios"
)

// await waits for the condition. If it does not hold in time, that is recorded, for
// the checks to judge.
func (r *Runner) await(ctx context.Context, a scenarios.Await) error {
	name, holds := r.condition(a)
	deadline := r.now() + a.Timeout.D()
	for {
		ok, err := holds(ctx)
		if err != nil {
			return fmt.Errorf("await %s: %w", name, err)
		}
		if ok {
			r.Record(history.NewAwaitDone(name))
			return nil
		}
		if r.now() > deadline {
			r.Record(history.NewAwaitLate(name, history.Note(fmt.Sprintf("not within %s", a.Timeout.D()))))
			return nil
		}
		if err := r.Sleep(ctx, r.now()+poll); err != nil {
			return err
		}
	}
}

func (r *Runner) condition(a scenarios.Await) (name string, holds func(context.Context) (bool, error)) {
	switch {
	case a.Deleted != "":
		want := r.sent[a.Deleted]
		return "deleted " + a.Deleted, func(context.Context) (bool, error) { return r.allSeen(history.SQSDeleted, want), nil }
	case a.Received != "":
		want := r.sent[a.Received]
		return "received " + a.Received, func(context.Context) (bool, error) { return r.allSeen(history.SQSReceived, want), nil }
	case a.Evicting != "":
		return "evicting " + a.Evicting, func(context.Context) (bool, error) { return r.evicting(r.nodes[a.Evicting].Name), nil }
	case a.Drained != "":
		node := r.nodes[a.Drained].Name
		return "drained " + a.Drained, func(ctx context.Context) (bool, error) {
			left, err := nodes.Evictable(ctx, r.cluster.Clientset, node)
			return left == 0, err
		}
	case a.Hit != "":
		return "hit " + a.Hit, func(context.Context) (bool, error) { return r.recorded(history.FaultHit, a.Hit), nil }
	case a.Ended != "":
		return "ended " + a.Ended, func(context.Context) (bool, error) {
			return r.recorded(history.FaultEnded, a.Ended) || r.recorded(history.HandlerLeftAlone, a.Ended), nil
		}
	case a.Launched != "":
		return "launched since " + a.Launched, func(context.Context) (bool, error) { return len(r.launchedSince(a.Launched)) > 0, nil }
	case a.DNSPods > 0:
		return history.Count(a.DNSPods, "CoreDNS pod"), func(ctx context.Context) (bool, error) { return r.dns.HasPods(ctx, a.DNSPods) }
	case a.Ready != "":
		return "ready " + a.Ready, func(ctx context.Context) (bool, error) { return r.workload.readyAgain(ctx, a.Ready) }
	default:
		// A query's loss is known only when its timeout is over.
		quiet, from := a.Answering.D()+prober.DefaultTimeout, r.now()
		return "answering", func(context.Context) (bool, error) {
			return r.now()-from >= quiet && r.AnsweredFor() >= quiet, nil
		}
	}
}

// allSeen reports whether all that was put was received or deleted, by the kind.
func (r *Runner) allSeen(kind history.Kind, put *sent) bool {
	seen := map[string]bool{}
	for _, e := range r.Events() {
		if e.Kind == kind {
			seen[e.Notice], seen[e.Message] = true, true
		}
	}
	missing := func(id string) bool { return !seen[id] }
	return !slices.ContainsFunc(put.notices, missing) && !slices.ContainsFunc(put.messages, missing)
}

// evicting reports whether a pod of the node was asked to terminate since the first step.
func (r *Runner) evicting(node string) bool {
	events := r.Events()
	begun := slices.IndexFunc(events, history.Steps.BegunBy)
	return slices.ContainsFunc(events[max(0, begun):], func(e history.Event) bool {
		return e.Kind == history.PodTerminating && e.Node == node
	})
}

// launchedSince are the instances that were launched since a step with that name, as nodes
// without a name.
func (r *Runner) launchedSince(step string) (launched []cluster.Node) {
	events := r.Events()
	since := slices.IndexFunc(events, func(e history.Event) bool {
		return e.Step() == step && (e.Kind == history.HandlerReconfigured || e.Kind == history.NoticePut || e.Kind == history.OperatorActed)
	})
	if since < 0 {
		return nil
	}
	for _, e := range events[since:] {
		if e.Kind == history.InstanceLaunched {
			launched = append(launched, cluster.Node{Instance: e.Instance})
		}
	}
	return launched
}
