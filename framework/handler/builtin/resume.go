package builtin

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// resumeEvery is the interval between searches for abandoned drains. They read the
	// informer's store and call no API.
	resumeEvery = 5 * time.Second
	// abandonedAfter is how long a drain must be idle before another handler takes over:
	// longer than sayEvery and lookSeldomEvery. If evictions delay the update for
	// longer, two handlers drain the node.
	abandonedAfter = 15 * time.Second
)

// resume continues recorded drains that have not ended, until ctx is done: at the start
// all of them, which a killed handler left, and then those that another replica
// abandons. Two handlers that drain the same node evict the same pods, which is harmless.
func (d *dispatcher) resume(ctx context.Context) {
	d.adoptAll(ctx, 0)
	for sleep(ctx, resumeEvery) {
		d.adoptAll(ctx, abandonedAfter)
	}
}

// adoptAll continues every drain that was idle for that long, and removes the record from
// restored nodes. Otherwise a node that is cordoned again later, for another reason, would
// be drained, or its next notice would count as a duplicate.
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

// adopt continues the drain if it was idle for that long. It updates the record first, so
// that only one of several handlers continues. If this process is already draining the
// node, with evictions that take that long, nothing else happens.
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
