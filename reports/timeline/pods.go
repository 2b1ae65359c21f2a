package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// pod is one pod's events in order of time, never none.
type pod []history.Event

func podsOf(events []history.Event) []pod {
	var pods []pod
	for _, group := range history.Pods(events) {
		pods = append(pods, group)
	}
	return pods
}

func (p pod) first(kinds ...history.Kind) (history.Event, bool) {
	if i := slices.IndexFunc(p, func(e history.Event) bool { return slices.Contains(kinds, e.Kind) }); i >= 0 {
		return p[i], true
	}
	return history.Event{}, false
}

func (p pod) name() string { return p[0].Pod }

func (p pod) owner() string {
	for _, e := range p {
		if e.Owner != "" {
			return e.Owner
		}
	}
	return ""
}

// node is where the pod is or was.
func (p pod) node() string {
	for _, e := range p {
		if e.Node != "" {
			return e.Node
		}
	}
	return ""
}

// since is when the pod was first there; before everything for one that was
// there when recording began.
func (p pod) since() time.Duration {
	if p[0].Kind == history.PodPresent {
		return 0
	}
	return p[0].At
}

// disturbed is true for a pod to which something happened in the drill.
func (d drill) disturbed(p pod) bool {
	return slices.ContainsFunc(p, func(e history.Event) bool { return e.At >= d.zero })
}

// workload has a row for each pod that was evicted, ended or made in the drill,
// but for those of cluster DNS.
func (d drill) workload() []Row {
	var rows []Row
	for _, p := range d.byFirstChange() {
		if !d.dns[p.name()] && d.disturbed(p) {
			rows = append(rows, d.pod(p, 0))
		}
	}
	return rows
}

// coreDNS has a row for each pod that is or was an endpoint of kube-dns.
func (d drill) coreDNS() []Row {
	var rows []Row
	for _, p := range d.byFirstChange() {
		if d.dns[p.name()] {
			rows = append(rows, d.pod(p, d.result.CoreDNS.Lameduck.D()))
		}
	}
	return rows
}

// byFirstChange orders pods by what first happened to them after the notice;
// those to which nothing did come last.
func (d drill) byFirstChange() []pod {
	change := func(p pod) time.Duration {
		for _, e := range p {
			if e.At >= d.zero {
				return e.At
			}
		}
		return d.to
	}
	pods := slices.Clone(d.pods)
	slices.SortStableFunc(pods, func(a, b pod) int { return cmp.Compare(change(a), change(b)) })
	return pods
}

// pod draws one pod. A lameduck above zero is shown where CoreDNS's log says that it
// began; where it does not, as the first part of the grace period, as set.
func (d drill) pod(p pod, lameduck time.Duration) Row {
	r := row{drill: d, Row: Row{Name: lastPart(p.name()), Note: p.node()}}
	for _, e := range p {
		switch e.Kind {
		case history.PodCreated:
			r.mark(e, Came, "created")
		case history.PodReady:
			if e.At >= d.zero {
				r.mark(e, Came, "ready")
			}
		case history.PodEvicted:
			r.mark(e, Act, "evicted")
		case history.PodTerminating:
			r.mark(e, Act, graceText(e))
		case history.PodSignalled:
			r.mark(e, Act, "SIGTERM")
		case history.PodExited:
			r.mark(e, Ended, "exited")
		case history.PodDeleted:
			r.mark(e, Ended, "deleted")
		}
	}
	ready, isReady := p.first(history.PodReady, history.PodPresent)
	terminating, ends := p.first(history.PodTerminating, history.PodExited, history.PodDeleted)
	if !ends {
		terminating.At = d.to
	}
	if !isReady {
		ready.At = terminating.At
	}
	if p[0].Kind == history.PodPresent {
		ready.At = 0
	}
	r.span(p.since(), min(ready.At, terminating.At), Pending, "not ready yet")
	r.span(ready.At, terminating.At, Running, "running")
	if !ends {
		return r.Row
	}
	exited, hasExited := p.first(history.PodExited, history.PodDeleted)
	if !hasExited {
		exited.At = d.to
	}
	deleted, isDeleted := p.first(history.PodDeleted)
	if !isDeleted {
		deleted.At = d.to
	}
	begun, text := terminating.At, fmt.Sprintf("lameduck %s, as set", lameduck)
	if e, ok := p.first(history.PodLameduck); ok {
		begun, text = e.At, fmt.Sprintf("lameduck %s", lameduck)
	}
	lame := min(begun+lameduck, exited.At)
	r.span(terminating.At, begun, Grace, "terminating")
	r.span(begun, lame, Lameduck, text)
	r.span(lame, exited.At, Grace, "terminating")
	r.span(exited.At, deleted.At, Exited, "exited")
	return r.Row
}

func graceText(e history.Event) string {
	if grace, ok := e.Numbers[history.Grace]; ok {
		return fmt.Sprintf("terminating, grace %gs", grace)
	}
	return "terminating"
}
