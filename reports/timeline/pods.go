package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// disturbed reports whether something happened to a pod in the drill.
func (d picture) disturbed(p story.Pod) bool {
	return slices.ContainsFunc(p.Events, func(e history.Event) bool { return e.At >= d.zero })
}

// workload has a row for each pod that was evicted, terminated or created in the
// drill, except those of cluster DNS.
func (d picture) workload() []Row {
	var rows []Row
	for _, p := range d.byFirstChange() {
		if !d.dns[p.Name()] && d.disturbed(p) {
			rows = append(rows, d.pod(p, 0))
		}
	}
	return rows
}

// coreDNS has a row for each pod that is or was an endpoint of kube-dns.
func (d picture) coreDNS() []Row {
	var rows []Row
	for _, p := range d.byFirstChange() {
		if d.dns[p.Name()] {
			r := row{picture: d, Row: d.pod(p, d.result.CoreDNS.Lameduck.D())}
			r.waits(p.Name())
			rows = append(rows, r.Row)
		}
	}
	return rows
}

// shownWait is the shortest wait for a processor that is drawn. Shorter ones lose nothing.
const shownWait = 50 * time.Millisecond

// waits draws the times in which a pod had work to do and no processor.
func (r *row) waits(pod string) {
	for _, e := range r.AllOf(history.ProcessorWaited) {
		waited := e.Numbers.Duration(history.Waited)
		if e.Pod == pod && waited >= shownWait {
			r.span(e.At-waited, e.At, Waiting, fmt.Sprintf("waited %d ms for a processor", waited.Milliseconds()))
		}
	}
}

// byFirstChange sorts pods by the first change to them after the notice; pods without
// one come last.
func (d picture) byFirstChange() []story.Pod {
	change := func(p story.Pod) time.Duration {
		for _, e := range p.Events {
			if e.At >= d.zero {
				return e.At
			}
		}
		return d.to
	}
	pods := slices.Clone(d.Pods)
	slices.SortStableFunc(pods, func(a, b story.Pod) int { return cmp.Compare(change(a), change(b)) })
	return pods
}

// pod draws one pod. A lameduck above zero begins when CoreDNS's log shows it. If the
// log does not, it is the first part of the grace period, for as long as it is set.
func (d picture) pod(p story.Pod, lameduck time.Duration) Row {
	r := row{picture: d, Row: Row{Name: lastPart(p.Name()), Note: p.Node()}}
	for _, e := range p.Events {
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
			text := "terminating"
			if grace, ok := e.Numbers[history.Grace]; ok {
				text = fmt.Sprintf("terminating, grace %gs", grace)
			}
			r.mark(e, Act, text)
		case history.PodSignalled:
			r.mark(e, Act, "SIGTERM")
		case history.PodExited:
			r.mark(e, Ended, "exited")
		case history.PodDeleted:
			r.mark(e, Ended, "deleted")
		}
	}
	ready, isReady := p.FirstOf(history.PodReady, history.PodPresent)
	terminating, ends := p.FirstOf(history.PodTerminating, history.PodExited, history.PodDeleted)
	if !ends {
		terminating.At = d.to
	}
	if !isReady {
		ready.At = terminating.At
	}
	if p.Events[0].Kind == history.PodPresent {
		ready.At = 0
	}
	r.span(p.Since(), min(ready.At, terminating.At), Pending, "not ready yet")
	r.span(ready.At, terminating.At, Running, "running")
	if !ends {
		return r.Row
	}
	exited, hasExited := p.FirstOf(history.PodExited, history.PodDeleted)
	if !hasExited {
		exited.At = d.to
	}
	deleted, isDeleted := p.FirstOf(history.PodDeleted)
	if !isDeleted {
		deleted.At = d.to
	}
	begun, text := terminating.At, fmt.Sprintf("lameduck %s, as set", lameduck)
	if e, ok := p.FirstOf(history.PodLameduck); ok {
		begun, text = d.Happened(e), fmt.Sprintf("lameduck %s", lameduck)
	}
	lame := min(begun+lameduck, exited.At)
	r.span(terminating.At, begun, Grace, "terminating")
	r.span(begun, lame, Lameduck, text)
	r.span(lame, exited.At, Grace, "terminating")
	r.span(exited.At, deleted.At, Exited, "exited")
	return r.Row
}
