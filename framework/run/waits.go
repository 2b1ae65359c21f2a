package run

import (
	"context"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/rundelay"
	"github.com/spotdrill/spotdrill/framework/system"
)

// recordWaits records for how long CoreDNS, the handler, the probers and kube-proxy beside
// them had no processor: what is lost then may be this machine's doing. If this machine
// does not show it (the engine runs in a virtual machine, say), the history holds the
// reason, and nothing is excused.
func (r *runner) recordWaits(ctx context.Context) (stop stopFunc, err error) {
	if err := rundelay.Available(rundelay.DefaultProc); err != nil {
		r.rec.Record(history.Event{Kind: history.WaitsRecorded, Note: oneLine(err)})
		return func(context.Context) error { return nil }, nil
	}
	handler, _, _ := strings.Cut(r.sys.Meta(r.handler()).Deployment, "/")
	pods, processes := watchedPods{runner: r, handler: handler, names: map[string]string{}}, rundelay.NewPods(rundelay.DefaultProc)
	sampler := rundelay.Sampler{
		Proc: rundelay.DefaultProc, Groups: rundelay.DefaultGroups, Now: r.rec.Clock().Now,
		Find:    func() ([]rundelay.Process, error) { return processes.Find(pods.update()) },
		Waited:  func(w rundelay.Wait) { r.rec.Record(w.Event()) },
		Dropped: func(d rundelay.Drop) { r.rec.Record(d.Event()) },
		Memory: func(m rundelay.Memory) {
			if handler != "" && strings.HasPrefix(m.Name, handler+"/") {
				r.rec.Record(m.Event())
			}
		},
	}
	sampling, enough := context.WithCancel(context.WithoutCancel(ctx))
	ended := r.collect("the waits for a processor", func() error {
		summary, err := sampler.Run(sampling)
		r.rec.Record(summary.Event())
		return err
	})
	return func(context.Context) error {
		enough()
		return <-ended
	}, nil
}

// watchedPods are the pods whose waits are recorded, by UID, as the history shows them.
type watchedPods struct {
	*runner
	handler string // the handler's namespace; empty without one
	seq     int    // of the last event that was read
	names   map[string]string
}

func (w *watchedPods) update() map[string]string {
	events := w.rec.EventsAfter(w.seq)
	w.seq += len(events)
	for _, e := range events {
		if e.UID != "" && strings.HasPrefix(string(e.Kind), "pod.") && w.watched(e) {
			w.names[e.UID] = e.Pod
		}
	}
	return w.names
}

// watched reports whether the pod takes part in what a drill measures: CoreDNS, our own
// pods that probe, the handler, and kube-proxy on the nodes that are probed from.
func (w *watchedPods) watched(e history.Event) bool {
	namespace, name, _ := strings.Cut(e.Pod, "/")
	switch {
	case namespace == "kube-system" && strings.HasPrefix(name, "kube-proxy-"):
		return slices.ContainsFunc(w.probers, func(p probing) bool { return p.node == e.Node })
	case namespace == "kube-system":
		return strings.HasPrefix(name, "coredns-")
	case namespace == system.Namespace:
		return name == "control" || strings.HasPrefix(name, "prober-")
	}
	return w.handler != "" && namespace == w.handler
}
