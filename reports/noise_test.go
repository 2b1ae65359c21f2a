package reports

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// dnsDrill is a drill in which DNS answers throughout. Long after its notice, all queries
// go to CoreDNS pods that stay.
const dnsDrill = "dns-answers-throughout"

// loseAtPodsThatStay loses half of the queries for that long, long after the notice, and
// shows when.
func (r *recorded) loseAtPodsThatStay(lasting time.Duration) (from, to time.Duration) {
	_, put := r.victim()
	from = put.At + 12*time.Second
	r.lose(history.Service, 2, from, from+lasting)
	return from, from + lasting
}

// starve records that the CoreDNS pods had no processor, except for a share of the time, and
// that their sockets dropped that many datagrams.
func (r *recorded) starve(from, to time.Duration, ran float64, dropped int) {
	for _, p := range r.Pods {
		if !r.servesDNS(p) {
			continue
		}
		waited := (to - from).Seconds()
		r.add(to, history.NewProcessorWaited(p.Name(), history.With(history.Numbers{
			history.Waited: waited, history.Ran: ran * waited, history.Throttled: 0, history.Resolution: 0.02,
		})))
		if dropped > 0 {
			r.add(to, history.NewDatagramsDropped(p.Name(), history.With(history.Numbers{
				history.Dropped: float64(dropped), history.Within: 0.1,
			})))
		}
	}
}

func (r *recorded) servesDNS(p story.Pod) bool {
	_, ok := r.First(func(e history.Event) bool { return e.Kind == history.EndpointReady && e.Pod == p.Name() })
	return ok
}

// noises spoil a recorded drill by losses that look like this machine's.
func noises() []spoiling {
	return []spoiling{
		{verdict.IDOfDNSLost, dnsDrill, "pods that stay lose queries", func(r *recorded) { r.loseAtPodsThatStay(300 * time.Millisecond) }, verdict.Fail},
		{verdict.IDOfDNSLost, dnsDrill, "pods that stay lose queries while they wait for a processor, and their sockets drop none", func(r *recorded) {
			from, to := r.loseAtPodsThatStay(300 * time.Millisecond)
			r.starve(from, to, 0, 0)
		}, verdict.Fail},
		{verdict.IDOfDNSLost, dnsDrill, "pods that stay lose queries because they are overloaded", func(r *recorded) {
			from, to := r.loseAtPodsThatStay(300 * time.Millisecond)
			r.starve(from, to, 0.9, 100)
		}, verdict.Fail},
		{verdict.IDOfDNSLost, dnsDrill, "pods that stay lose queries for longer than they wait for a processor", func(r *recorded) {
			from, to := r.loseAtPodsThatStay(600 * time.Millisecond)
			r.starve(from, to-300*time.Millisecond, 0, 100)
		}, verdict.Fail},
		{verdict.IDOfDNSLost, dnsDrill, "queries are lost, and the kernel dropped more packets of other flows", func(r *recorded) {
			_, to := r.loseAtPodsThatStay(300 * time.Millisecond)
			r.add(to, history.NewInsertsFailed("", history.With(history.Numbers{history.InsertFailed: 500, history.Within: 0.4})))
		}, verdict.Fail},
	}
}

// noiseExcused are losses that the record shows to be this machine's.
func noiseExcused() []excuse {
	return []excuse{
		{verdict.IDOfDNSLost, dnsDrill, "pods that stay lose queries because they have no processor", func(r *recorded) {
			from, to := r.loseAtPodsThatStay(300 * time.Millisecond)
			r.starve(from, to, 0, 100)
		}, verdict.Pass},
	}
}
