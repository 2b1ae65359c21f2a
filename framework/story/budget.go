package story

import (
	"github.com/spotdrill/spotdrill/framework/history"
)

// Budget follows how many pods of a group are Ready and not terminating, and
// how many their PodDisruptionBudget requires, through the events of a drill.
type Budget struct {
	Required int
	Seen     bool // a budget was seen

	node    string         // that is drained
	group   string         // of the workload
	pods    map[string]Pod // by UID
	healthy map[string]bool
	known   map[string]bool // were Ready once
	// stalled are the pods that are no longer Ready, though nothing evicted or deleted them; lost
	// is how many of those, or of pods that somebody else took, went and have not been
	// replaced. A budget would be kept if they were Ready.
	stalled map[string]bool
	lost    int
}

// BudgetOf is the budget of a group, before the first event, in the drain of a node.
func (st *Story) BudgetOf(node, group string) *Budget {
	b := &Budget{node: node, group: group, pods: map[string]Pod{}, healthy: map[string]bool{}, known: map[string]bool{}, stalled: map[string]bool{}}
	for _, p := range st.Pods {
		if p.In(group) {
			b.pods[p.UID()] = p
		}
	}
	return b
}

// Ready is how many of the pods are Ready and not terminating.
func (b *Budget) Ready() int { return len(b.healthy) }

// Has reports whether an event is about one of the pods.
func (b *Budget) Has(e history.Event) bool {
	_, ok := b.pods[e.UID]
	return ok
}

// Others is how many pods the budget lacks through no doing of the drain's.
func (b *Budget) Others() int { return len(b.stalled) + b.lost }

// Follow takes the next event of the drill into account.
func (b *Budget) Follow(e history.Event) {
	if e.Kind == history.BudgetSet && e.Group() == b.group {
		b.Required, b.Seen = int(e.Numbers[history.MinAvailable]), true
	}
	p, ok := b.pods[e.UID]
	if !ok {
		return
	}
	switch e.Kind {
	case history.PodReady:
		if !b.known[e.UID] && b.lost > 0 {
			b.lost--
		}
		b.healthy[e.UID], b.known[e.UID] = true, true
		delete(b.stalled, e.UID)
	case history.PodNotReady, history.PodExited:
		if b.healthy[e.UID] {
			b.stalled[e.UID] = true
		}
		delete(b.healthy, e.UID)
	case history.PodTerminating, history.PodDeleted:
		if b.byOthers(p) && (b.healthy[e.UID] || b.stalled[e.UID]) || b.stalled[e.UID] && disruption(p) == byEviction {
			b.lost++
		}
		delete(b.healthy, e.UID)
		delete(b.stalled, e.UID)
	}
}

// The reasons of a DisruptionTarget condition: the Eviction API respects budgets; the
// other two follow a NoExecute taint, or the deletion of the Node.
const (
	byEviction = "EvictionByEvictionAPI"
	byTaint    = "DeletionByTaintManager"
	byPodGC    = "DeletionByPodGC"
)

// disruption is why Kubernetes reports that the pod was disrupted; empty for one that was
// deleted, or still is there.
func disruption(p Pod) string {
	e, _ := p.FirstOf(history.PodEvicted)
	return e.KubernetesReason()
}

// byOthers reports whether it was not the drain of the node that took the pod.
func (b *Budget) byOthers(p Pod) bool {
	switch disruption(p) {
	case "", byEviction:
		return false
	case byTaint, byPodGC:
		return p.Node() != b.node
	}
	return true
}

// Exceeds reports whether by this event the drain takes more pods than the budget
// allows, or may do so: an eviction while other pods are missing is granted by what the
// API server knows of them, which may be late.
func (b *Budget) Exceeds(e history.Event) Blame {
	p, ok := b.pods[e.UID]
	taken := ok && (e.Kind == history.PodTerminating || e.Kind == history.PodDeleted) && p.EndsBy(e) && !b.byOthers(p)
	switch {
	case len(b.healthy) >= b.Required:
		return Blameless
	case len(b.healthy)+b.Others() < b.Required, taken && disruption(p) != byEviction:
		return Blamed
	case taken && !stalledBefore(p, e):
		return Unclear
	}
	return Blameless
}

// stalledBefore reports whether the pod was not Ready when this event took it.
func stalledBefore(p Pod, e history.Event) bool {
	_, ready := p.ReadyAt(e.At - 1)
	return !ready
}
