package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/imds"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// scheduledFor is how long the window of a scheduled event is.
const scheduledFor = 2 * time.Hour

// putMetadata announces a notice in the metadata of the instances that it names.
func (r *runner) putMetadata(ctx context.Context, n scenarios.Notice) error {
	for _, name := range n.Nodes {
		node := r.nodes[name]
		at, err := r.announceOn(ctx, node.Name, n)
		if err != nil {
			return err
		}
		r.recordUnsent(n, node, at)
	}
	return nil
}

// recordUnsent records a notice about a node's instance for which no message is sent.
func (r *runner) recordUnsent(n scenarios.Notice, node cluster.Node, at time.Duration) {
	deadline := at + r.Scenario.Deadline.For(r.Set)
	r.notices[n.Name] = &sent{put: at, deadline: deadline}
	r.announce(history.NewNoticePut(n.Name, n.Type, node.Name, history.At(at), history.Until(deadline), history.Instance(node.Instance)))
}

// announceToOthers announces a notice also to the other handlers, if one reads the metadata of the
// instances which it names.
func (r *runner) announceToOthers(ctx context.Context, n scenarios.Notice) error {
	if !slices.ContainsFunc(r.Handlers[1:], func(i system.Installation) bool { return i.Handler.ReadsMetadata() }) {
		return nil
	}
	for _, name := range n.Nodes {
		if _, err := r.announceOn(ctx, r.nodes[name].Name, n); err != nil {
			return err
		}
	}
	return nil
}

// announceOn announces a notice in the metadata of a node's instance, and returns when.
func (r *runner) announceOn(ctx context.Context, node string, n scenarios.Notice) (time.Duration, error) {
	at := r.rec.Clock().Now()
	a := announcing(r.announced[node], n, r.rec.Clock().Start().Add(at), r.Scenario.MetadataTime(n, r.Set))
	if err := r.sys.Announce(ctx, node, a); err != nil {
		return at, fmt.Errorf("notice %s: %w", n.Name, err)
	}
	r.announced[node] = a
	return at, nil
}

// announcing is what an instance's metadata announces when a notice is added at a time, of what
// happens after until.
func announcing(a imds.Announced, n scenarios.Notice, at time.Time, until time.Duration) imds.Announced {
	switch n.Type {
	case history.SpotInterruption:
		a.Spot = &imds.SpotAction{Action: cmp.Or(n.Action, "terminate"), Time: at.Add(until)}
	case history.RebalanceRecommendation:
		a.Rebalance = &at
	case history.ScheduledChange:
		a.Scheduled = append(a.Scheduled, imds.ScheduledEvent{
			ID: fmt.Sprintf("instance-event-%x", at.UnixNano()), Code: "instance-stop", State: "active",
			NotBefore: at.Add(until), NotAfter: at.Add(until + scheduledFor),
		})
	}
	return a
}

// beginMetadataFault begins a fault of a node's metadata service, which reports when it begins, hits and
// ends.
func (r *runner) beginMetadataFault(ctx context.Context, f fault.Fault) error {
	node := r.nodes[f.Node].Name
	if err := r.sys.FailMetadata(ctx, node, f); err != nil {
		return err
	}
	r.meanwhile.Go(func() error {
		if err := r.recordMetadataFault(ctx, node, f); err != nil {
			return fmt.Errorf("fault %s: %w", f.Name, err)
		}
		return nil
	})
	return nil
}

const (
	// hitPoll is the pause between two looks at what a fault has hit.
	hitPoll = 500 * time.Millisecond
	// endSlack is how much later than its end a fault of a metadata service must be known to have ended.
	endSlack = 20 * time.Second
)

// recordMetadataFault records what becomes of a fault of a node's metadata service, until it has ended.
func (r *runner) recordMetadataFault(ctx context.Context, node string, f fault.Fault) error {
	ctx, cancel := context.WithTimeout(ctx, f.For.D()+endSlack)
	defer cancel()
	for recorded := 0; ; {
		all, err := r.sys.MetadataFaults(ctx, node)
		if err != nil {
			return err
		}
		for _, h := range all[min(recorded, len(all)):] {
			if h.Event.Step() != f.Name {
				continue
			}
			h.Event.At, h.Event.Node = r.rec.Clock().Of(h.At), node
			r.rec.Record(h.Event)
			if h.Event.Kind == history.FaultEnded {
				return nil
			}
		}
		recorded = len(all)
		if err := r.sleep(ctx, hitPoll); err != nil {
			return err
		}
	}
}

// recordAllMetadata records what was read of the metadata of every spot node that was not taken.
func (r *runner) recordAllMetadata(ctx context.Context) error {
	for _, n := range r.sys.Cluster.Nodes {
		if n.Capacity != nodes.Spot || r.taken(n) {
			continue
		}
		if err := r.recordMetadata(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// taken reports whether the node's instance was taken in this drill or the one next to it.
func (r *runner) taken(n cluster.Node) bool {
	for _, played := range slices.Concat(r.beside, []*runner{r}) {
		for _, e := range played.rec.Events() {
			if (e.Kind == history.Reclaimed || e.Kind == history.NodeShutdown) && e.Node == n.Name {
				return true
			}
		}
	}
	return false
}

// recordMetadata records what was read of the metadata of a node's instance since the drill began.
func (r *runner) recordMetadata(ctx context.Context, n cluster.Node) error {
	if !r.sys.ServesMetadata() || n.Capacity != nodes.Spot {
		return nil
	}
	requests, err := r.sys.MetadataRequests(ctx, n.Name)
	if err != nil {
		return err
	}
	for _, q := range requests {
		last := r.rec.Clock().Of(q.Last)
		announced := history.NoticeType("")
		if q.Announces {
			announced = noticeAt(q.Path)
		}
		e := history.NewMetadataRead(n.Name, q.Path, announced, history.Instance(n.Instance), history.Action(q.Method), history.Status(q.Status), history.Fault(q.Fault))
		e.At, e.Until = r.rec.Clock().Of(q.First), &last
		e.Numbers = history.Numbers{history.Requests: float64(q.Count)}
		if reader := slices.IndexFunc(r.Handlers, func(i system.Installation) bool { return i.Handler.ReadsMetadata() }); reader >= 0 {
			e.By = r.Handlers[reader].Name
		}
		r.rec.Record(e)
	}
	return nil
}

// noticeAt is what a path of the metadata announces.
func noticeAt(path string) history.NoticeType {
	switch path {
	case imds.RebalancePath:
		return history.RebalanceRecommendation
	case imds.ScheduledPath:
		return history.ScheduledChange
	}
	return history.SpotInterruption
}
