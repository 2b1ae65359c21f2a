package builtin

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// resumeEvery is the time between two looks for drains that nobody works on. It
	// looks at the informer's store: the API server is not asked.
	resumeEvery = 5 * time.Second
	// abandonedAfter is how long a drain must be idle for another handler to take it
	// over: longer than sayEvery and lookSeldomEvery. Where evictions hold the word up
	// for longer, two handlers drain the node.
	abandonedAfter = 15 * time.Second
)

// resume goes on with the drains that are recorded and not ended: at once with each
// of them, which a handler left that was killed, and then with those that another
// replica leaves, until ctx is done. Two handlers that drain the same node evict the
// same pods, which harms nobody.
func (d *dispatcher) resume(ctx context.Context) {
	d.adoptAll(ctx, 0)
	for sleep(ctx, resumeEvery) {
		d.adoptAll(ctx, abandonedAfter)
	}
}

// adoptAll goes on with every drain that was idle for so long, and takes the record
// off nodes that somebody has restored: one that is cordoned again later, for another
// reason, would be drained, or the next notice for it taken for a duplicate.
func (d *dispatcher) adoptAll(ctx context.Context, idle time.Duration) {
	for _, obj := range d.nodes.List() {
		node := obj.(*corev1.Node)
		r, stands := recordOf(node)
		if stands {
			d.adopt(ctx, node, r, idle)
		} else if r.State != "" {
			if err := d.drainer.write(ctx, node, nil); err != nil {
				d.log.Warn("take the record off a restored node", "node", node.Name, "error", err)
			}
		}
	}
}

// adopt goes on with the drain where it was idle for so long. It says so in the record
// first, so that of several handlers one does. For a drain of this process, whose
// evictions take that long, that is all.
func (d *dispatcher) adopt(ctx context.Context, node *corev1.Node, r drainRecord, idle time.Duration) {
	if r.State != stateDraining || r.idle() < idle {
		return
	}
	log := d.log.With("node", node.Name, "instance", r.Instance, "notice", r.Notice)
	if err := d.drainer.say(ctx, node, r); err != nil {
		log.Warn("drain not resumed yet", "error", err)
		return
	}
	if d.start(node.Name, r) {
		log.Info("drain resumed")
		d.drainer.events.Eventf(node, corev1.EventTypeNormal, "DrainResumed", "Evicting the pods that are left (notice %s)", r.Notice)
	}
}
