package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// drill is a history with the questions that the checks ask of it.
type drill struct {
	scenario scenarios.Scenario
	history  history.History
	// events are those of the drill itself in order of time: what happens once
	// the cluster is being put back is the harness's doing, and what happens to
	// drills that were played beside it is theirs.
	events []history.Event
	// begun is where the steps begin: what was found before is not the drill's.
	begun time.Duration
	// end is where putting back begins.
	end time.Duration
	// observed is up to where the absence of an event means that it did not
	// happen: the end, or the first time that the harness itself broke.
	observed time.Duration
	pods     []pod
	// unexcused are the workload's pods that a drain has to move, by UID, but for those
	// of which Kubernetes says that they were evicted or why else it took them: the
	// DisruptionTarget condition.
	unexcused map[string]bool
	dns       *DNS
	// traffic is worked out once, by the first who asks: it looks at every query.
	traffic func() traffic
}

func newDrill(s scenarios.Scenario, h history.History) drill {
	d := drill{scenario: s, history: h, begun: math.MaxInt64, end: math.MaxInt64}
	last := time.Duration(0)
	for _, e := range h.Events {
		last = max(last, e.At)
		switch {
		case e.Kind == history.RunPhase && e.Key == "steps":
			d.begun = min(d.begun, e.At)
		case e.Kind == history.RunPhase && e.Key == "restore":
			d.end = min(d.end, e.At)
		}
	}
	d.observed = min(d.end, last)
	for _, e := range h.Events {
		if e.Kind == history.RunError {
			d.observed = min(d.observed, e.At)
		}
	}
	for _, e := range history.Own(h.Events) {
		if e.At < d.end {
			d.events = append(d.events, e)
		}
	}
	slices.SortStableFunc(d.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	d.pods, d.unexcused = podsOf(d.events), map[string]bool{}
	for _, p := range d.pods {
		_, excused := p.first(func(e history.Event) bool { return e.Kind == history.PodEvicted })
		d.unexcused[p.events[0].UID] = !excused && p.evictable() && slices.ContainsFunc(s.Workload.Groups(), p.in)
	}
	d.dns = d.measure()
	d.traffic = sync.OnceValue(func() traffic { return newTraffic(d) })
	return d
}

// first is the drill's first event for which ok holds.
func (d drill) first(ok func(history.Event) bool) (history.Event, bool) {
	if i := slices.IndexFunc(d.events, ok); i >= 0 {
		return d.events[i], true
	}
	return history.Event{}, false
}

func (d drill) all(ok func(history.Event) bool) []history.Event {
	var out []history.Event
	for _, e := range d.events {
		if ok(e) {
			out = append(out, e)
		}
	}
	return out
}

// node is the cluster node that a name of the scenario stands for. Where it is
// not known, why says so.
func (d drill) node(name string) (node, why string) {
	role, ok := d.first(func(e history.Event) bool { return e.Kind == history.NodeRole && e.Key == name && e.Node != "" })
	if !ok {
		return "", fmt.Sprintf("the history does not say which node %q is", name)
	}
	if _, ok := d.first(func(e history.Event) bool { return e.Kind == history.NodePresent && e.Node == role.Node }); !ok {
		return "", fmt.Sprintf("%s (%s) was not seen in the cluster", role.Node, name)
	}
	return role.Node, ""
}

// noticed is the node behind a name and the notice that named it.
func (d drill) noticed(name, notice string) (node string, put history.Event, why string) {
	if node, why = d.node(name); why != "" {
		return "", put, why
	}
	put, ok := d.first(func(e history.Event) bool {
		return e.Kind == history.NoticePut && e.Key == notice && e.Node == node
	})
	if !ok {
		return "", put, fmt.Sprintf("notice %q was never put for %s (%s)", notice, node, name)
	}
	return node, put, ""
}

// deadlined is noticed for a notice that must have a deadline, put.Until.
func (d drill) deadlined(name, notice string) (node string, put history.Event, why string) {
	node, put, why = d.noticed(name, notice)
	if why == "" && (put.Until == nil || *put.Until <= put.At) {
		why = "the notice was put without a deadline"
	}
	return node, put, why
}

// gone is when the node's instance was taken; the end of the drill where it
// never was. What happens to the node later is not the handler's doing.
func (d drill) gone(node string) time.Duration {
	if e, ok := d.reclaimed(node); ok {
		return e.At
	}
	return d.end
}

func (d drill) reclaimed(node string) (history.Event, bool) {
	return d.first(func(e history.Event) bool { return e.Kind == history.Reclaimed && e.Node == node })
}

// started is when the fault began: when the first notice or message went in, when
// CoreDNS was disrupted, or a node taken without a notice.
func (d drill) started() (time.Duration, bool) {
	unannounced := slices.ContainsFunc(d.scenario.Steps, func(step scenarios.Step) bool { return step.Reclaim != nil && step.Reclaim.At == "" })
	e, ok := d.first(func(e history.Event) bool {
		switch e.Kind {
		case history.NoticePut, history.MessagePut, history.DNSDisrupted:
			return true
		}
		return e.Kind == history.Reclaimed && unannounced
	})
	return e.At, ok
}

// unseen is the reason for Unknown where the recording ends before the time up
// to which it would have to show that something did not happen.
func (d drill) unseen(until time.Duration) string {
	if d.observed >= until {
		return ""
	}
	return fmt.Sprintf("not by +%s, and the recording tells no more", history.Seconds(d.observed))
}

// ownTaint is true for the taints that Kubernetes itself puts on nodes.
func ownTaint(key string) bool {
	return strings.HasPrefix(key, "node.kubernetes.io/") || strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/")
}

// touch is true for an event by which somebody other than Kubernetes interferes
// with a node or the pods on it. Nodes may have taints of their own and pods may
// have been evicted when recording starts; cordons and the handler's taint are
// never there before a drill.
func (d drill) touch(e history.Event) bool {
	switch e.Kind {
	case history.NodeCordoned, history.NodeDeleted:
		return true
	case history.NodeTainted:
		return e.Key == d.history.Meta.Handler.Taint || e.At >= d.begun && !ownTaint(e.Key)
	}
	return d.takes(e)
}

// takes is true for an event by which somebody takes a pod away: an eviction, or
// the deletion of one of the workload's without any.
func (d drill) takes(e history.Event) bool {
	return d.evicts(e) || e.Kind == history.PodTerminating && e.At >= d.begun && d.unexcused[e.UID]
}

// evicts is true for an eviction by way of the Eviction API during the drill.
func (d drill) evicts(e history.Event) bool {
	return e.Kind == history.PodEvicted && e.Reason == "EvictionByEvictionAPI" && e.At >= d.begun
}

// touches are the interferences with a node while its instance is there.
func (d drill) touches(node string) []history.Event {
	gone := d.gone(node)
	return d.all(func(e history.Event) bool { return e.Node == node && e.At < gone && d.touch(e) })
}

// describe names events for a verdict's Got: "node.cordoned, pod.evicted x 3".
func describe(events []history.Event) string {
	var kinds []string
	count := map[string]int{}
	for _, e := range events {
		if count[string(e.Kind)]++; count[string(e.Kind)] == 1 {
			kinds = append(kinds, string(e.Kind))
		}
	}
	for i, k := range kinds {
		if count[k] > 1 {
			kinds[i] = fmt.Sprintf("%s x %d", k, count[k])
		}
	}
	return strings.Join(kinds, ", ")
}

// capped keeps evidence short enough to be read.
func capped(events []history.Event) []history.Event {
	return events[:min(len(events), evidenceMax)]
}

const evidenceMax = 12

// known leaves out the events that were not found.
func known(events ...history.Event) []history.Event {
	return slices.DeleteFunc(events, func(e history.Event) bool { return e.Kind == "" })
}
