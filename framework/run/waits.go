package run

import (
	"context"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/rundelay"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// waits are for a processor, of the pods that take part in what a drill measures.
type waits struct {
	*drill
	probers *probers
	binary  string
	handler string            // the handler's namespace; empty without one
	seq     int               // of the last event that was read
	names   map[string]string // of the pods, by UID, as the history shows them
	first   []string          // the probers: what did not leave, or left late, reports nothing
}

// record records for how long CoreDNS, the handler, the probers and kube-proxy next to
// them had no processor: what is lost then may be this machine's doing. If this machine
// does not show it (the engine runs in a virtual machine, perhaps), the history holds the
// reason, and nothing is excused. In a lane nothing is: what does not pass is played again alone.
func (w *waits) record(ctx context.Context) (stop recording.Stop, err error) {
	if w.lane != "" {
		return func(context.Context) error { return nil }, nil
	}
	if err := rundelay.Available(rundelay.DefaultProc); err != nil {
		w.Record(history.NewWaitsRecorded(history.Note(oneLine(err))))
		return func(context.Context) error { return nil }, nil
	}
	sampling, enough := context.WithCancel(context.WithoutCancel(ctx))
	ended := w.collect("the waits for a processor", func() error {
		return rundelay.Record(sampling, w.binary, w.Clock(), w.update, func(e history.Event) {
			if e.Kind != history.MemoryUsed || w.handler != "" && strings.HasPrefix(e.Pod, w.handler+"/") {
				w.Record(e)
			}
		})
	})
	return func(context.Context) error {
		enough()
		return <-ended
	}, nil
}

func (w *waits) update() rundelay.Watched {
	events := w.EventsAfter(w.seq)
	w.seq += len(events)
	for _, e := range events {
		if e.UID != "" && strings.HasPrefix(string(e.Kind), "pod.") && w.watched(e) {
			if w.names[e.UID] == "" && strings.HasPrefix(e.Pod, system.Namespace+"/prober-") {
				w.first = append(w.first, e.Pod)
			}
			w.names[e.UID] = e.Pod
		}
	}
	return rundelay.Watched{Pods: w.names, First: w.first}
}

// watched reports whether the pod takes part in what a drill measures: CoreDNS, our own
// pods that probe, the application that they request, the handler, and kube-proxy on the nodes
// that are probed from.
func (w *waits) watched(e history.Event) bool {
	namespace, name, _ := strings.Cut(e.Pod, "/")
	switch {
	case namespace == "kube-system" && strings.HasPrefix(name, "kube-proxy-"):
		return slices.ContainsFunc(w.probers.all, func(p probing) bool { return p.node == e.Node })
	case namespace == "kube-system":
		return strings.HasPrefix(name, "coredns-")
	case namespace == system.Namespace:
		return name == "control" || name == history.ApplicationControl || strings.HasPrefix(name, "prober-")
	case namespace == w.namespace:
		return w.application() && strings.HasPrefix(name, scenarios.App+"-")
	}
	return w.handler != "" && namespace == w.handler
}
