package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/imds"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// scheduledFor is how long the window of a scheduled event is.
const scheduledFor = 2 * time.Hour

// metadata is that of the nodes' instances, which handlers may read instead of the queue.
type metadata struct {
	*drill
	service system.Metadata
	cluster *cluster.Cluster
	// announced is what it announces, by the node's name.
	announced map[string]imds.Announced
}

// put announces a notice in the metadata of the instances that it names.
func (m metadata) put(ctx context.Context, n scenarios.Notice) error {
	for _, name := range n.Nodes {
		node := m.nodes[name]
		at, err := m.announceOn(ctx, node.Name, n)
		if err != nil {
			return err
		}
		m.recordUnsent(n, node, at)
	}
	return nil
}

// announceToOthers announces a notice also to the other handlers, if one reads notices from the metadata
// of the instances which it names.
func (m metadata) announceToOthers(ctx context.Context, n scenarios.Notice) error {
	if !slices.ContainsFunc(m.Handlers[1:], func(i system.Installation) bool { return !i.Handler.ReadsQueue() }) {
		return nil
	}
	for _, name := range n.Nodes {
		if _, err := m.announceOn(ctx, m.nodes[name].Name, n); err != nil {
			return err
		}
	}
	return nil
}

// announceOn announces a notice in the metadata of a node's instance, and returns when.
func (m metadata) announceOn(ctx context.Context, node string, n scenarios.Notice) (time.Duration, error) {
	at := m.now()
	a := announcing(m.announced[node], n, m.Clock().Start().Add(at), m.Scenario.MetadataTime(n, m.Set))
	if err := m.service.Announce(ctx, node, a); err != nil {
		return at, fmt.Errorf("notice %s: %w", n.Name, err)
	}
	m.announced[node] = a
	return at, nil
}

// announcing adds a notice to what an instance's metadata announces. It was sent at that time, and
// its event happens after until.
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

// beginFault begins a fault of the metadata service of its node, or else of those that run a pod of the
// handler. Each reports when the fault begins, hits and ends.
func (m metadata) beginFault(ctx context.Context, f fault.Fault, pods func(context.Context) ([]corev1.Pod, error)) error {
	on := []string{m.nodes[f.Node].Name}
	if f.Node == "" {
		running, err := pods(ctx)
		if err != nil {
			return err
		}
		if on = nodesOf(running); len(on) == 0 {
			return fmt.Errorf("%s has no pod on a node, so that there is no metadata that it reads", m.handler().Name)
		}
	}
	for _, node := range on {
		if err := m.service.Fail(ctx, node, f); err != nil {
			return err
		}
		m.meanwhile.Go(func() error {
			return wrap.Errorf(m.recordFault(ctx, node, f), "fault %s", f.Name)
		})
	}
	return nil
}

// nodesOf are the nodes of the pods that were bound to one, each once.
func nodesOf(pods []corev1.Pod) (names []string) {
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			names = append(names, p.Spec.NodeName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

const (
	// hitPoll is the pause between two looks at what a fault has hit.
	hitPoll = 500 * time.Millisecond
	// endSlack is how much later than its end a fault of a metadata service must be known to have ended.
	endSlack = 20 * time.Second
)

// recordFault records the hits and the end of a fault of a node's metadata service.
func (m metadata) recordFault(ctx context.Context, node string, f fault.Fault) error {
	ctx, cancel := context.WithTimeout(ctx, f.For.D()+endSlack)
	defer cancel()
	for recorded := 0; ; {
		all, err := m.service.Faults(ctx, node)
		if err != nil {
			return err
		}
		for _, h := range all[min(recorded, len(all)):] {
			if h.Event.Step() != f.Name {
				continue
			}
			h.Event.At, h.Event.Node = m.Clock().Of(h.At), node
			m.Record(h.Event)
			if h.Event.Kind == history.FaultEnded {
				return nil
			}
		}
		recorded = len(all)
		if err := m.sleep(ctx, hitPoll); err != nil {
			return err
		}
	}
}

// recordAll records what was read of the metadata of every node that was not taken.
func (m metadata) recordAll(ctx context.Context) error {
	for _, n := range m.cluster.Nodes {
		if m.taken(n) {
			continue
		}
		if err := m.record(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// taken reports whether the node's instance was taken in this drill or the one next to it.
func (m metadata) taken(n cluster.Node) bool {
	for _, played := range append(slices.Clone(m.alongside), m.drill) {
		for _, e := range played.Events() {
			if (e.Kind == history.Reclaimed || e.Kind == history.NodeShutdown) && e.Node == n.Name {
				return true
			}
		}
	}
	return false
}

// record records what was read of the metadata of a node's instance since the drill began.
func (m metadata) record(ctx context.Context, n cluster.Node) error {
	if !m.service.Serves(n.Capacity) {
		return nil
	}
	requests, err := m.service.Requests(ctx, n.Name)
	if err != nil {
		return err
	}
	for _, q := range requests {
		last := m.Clock().Of(q.Last)
		announced := history.NoticeType("")
		if q.Announces {
			announced = noticeAt(q.Path)
		}
		e := history.NewMetadataRead(n.Name, q.Path, announced, history.Instance(n.Instance), history.Action(q.Method), history.Status(q.Status), history.Fault(q.Fault))
		e.At, e.Until = m.Clock().Of(q.First), &last
		e.Numbers = history.Numbers{history.Requests: float64(q.Count)}
		if reader := slices.IndexFunc(m.Handlers, func(i system.Installation) bool { return i.Handler.ReadsMetadata() }); reader >= 0 {
			e.By = m.Handlers[reader].Name
		}
		m.Record(e)
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
