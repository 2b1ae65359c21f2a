package builtin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// handleWithin keeps the handling of a message within its visibility timeout.
const handleWithin = visibility - 5*time.Second

// byInstance is the name of the node informer's index.
const byInstance = "instance"

// The results of handling a message. All except failed and early end with its deletion.
const (
	resultDraining  = "draining"
	resultDuplicate = "duplicate" // a recorded drain covers it
	resultTold      = "told"
	resultForeign   = "foreign" // no such instance in this cluster
	resultEarly     = "early"   // no such instance yet, or it is drained for another notice; the message is redelivered
	resultIgnored   = "ignored"
	resultInvalid   = "invalid"
	resultFailed    = "failed" // the Kubernetes API did not answer; the message is redelivered
)

// dispatcher acts on messages.
type dispatcher struct {
	queue   *queue
	nodes   cache.Indexer
	drainer *drainer
	metrics *metrics
	log     *slog.Logger

	// drains outlive the handling of their message and the stop signal, until drainCtx
	// is done.
	drainCtx context.Context //nolint:containedctx // the life of the drains, not of a call
	drains   sync.WaitGroup
	running  sync.Map // the drains of this process, by node and drainRecord.drain
}

// instanceOf reads the EC2 instance id from spec.providerID, which is
// aws:///ZONE/ID; empty for any other node.
func instanceOf(node *corev1.Node) string {
	rest, ok := strings.CutPrefix(node.Spec.ProviderID, "aws:///")
	if !ok {
		return ""
	}
	return rest[strings.LastIndex(rest, "/")+1:]
}

func indexByInstance(obj any) ([]string, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("index by instance: want a Node, have %T", obj)
	}
	if id := instanceOf(node); id != "" {
		return []string{id}, nil
	}
	return nil, nil
}

// handle acts on a message and deletes it, unless that failed with an error that may be
// temporary: then SQS delivers it again.
func (d *dispatcher) handle(ctx context.Context, m types.Message) {
	log := d.log.With("message", aws.ToString(m.MessageId))
	notice, err := parseNotice(aws.ToString(m.Body))
	result := resultInvalid
	if err == nil {
		log = log.With("notice", notice.ID, "type", notice.Type, "cause", string(notice.Cause))
		bounded, cancel := context.WithTimeout(ctx, handleWithin)
		d.addReserved(&notice)
		result, err = d.settle(bounded, log, notice)
		cancel()
	}
	d.metrics.messages.WithLabelValues(string(notice.Cause), result).Inc()
	if err != nil {
		log.Error("message not understood or not settled", "result", result, "error", err)
	} else {
		log.Info("message settled", "result", result, "instances", notice.Instances)
	}
	if result == resultFailed || result == resultEarly {
		return
	}
	if err := d.queue.delete(ctx, m); err != nil {
		log.Error("message stays in the queue", "error", err)
	}
}

// reservationLabel is the label of the nodes in a capacity reservation, which Karpenter sets:
// https://karpenter.sh/docs/reference/labels/.
const reservationLabel = "karpenter.k8s.aws/capacity-reservation-id"

// addReserved adds the instances of the nodes in the notice's capacity reservation.
func (d *dispatcher) addReserved(n *notice) {
	if n.Reservation == "" {
		return
	}
	for _, obj := range d.nodes.List() {
		if node := obj.(*corev1.Node); node.Labels[reservationLabel] == n.Reservation {
			n.add(instanceOf(node))
		}
	}
}

// settle acts on every instance of the notice, even if one of them fails; then the notice
// fails as a whole.
func (d *dispatcher) settle(ctx context.Context, log *slog.Logger, n notice) (string, error) {
	if n.Action == ignore {
		return resultIgnored, nil
	}
	result := resultForeign
	if n.early() {
		result = resultEarly
	}
	var errs []error
	for _, instance := range n.Instances {
		nodes, err := d.nodes.ByIndex(byInstance, instance)
		if err != nil {
			return resultFailed, fmt.Errorf("look for instance %s: %w", instance, err)
		}
		for _, obj := range nodes {
			node := obj.(*corev1.Node)
			acted, err := d.act(ctx, log, node, instance, n)
			errs = append(errs, err)
			if result != resultDraining {
				result = acted
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return resultFailed, err
	}
	return result, nil
}

// afterAnother settles a notice whose node another drain covers. A lifecycle action that this
// drain does not complete is completed when it is over.
func (d *dispatcher) afterAnother(ctx context.Context, other, r drainRecord) (string, error) {
	switch {
	case r.Lifecycle == nil || other.Lifecycle != nil && *other.Lifecycle == *r.Lifecycle:
		return resultDuplicate, nil
	case other.State == stateDraining:
		return resultEarly, nil
	}
	if err := d.drainer.lifecycles.complete(ctx, r.Instance, *r.Lifecycle); err != nil {
		return resultFailed, err
	}
	return resultDuplicate, nil
}

func (d *dispatcher) act(ctx context.Context, log *slog.Logger, node *corev1.Node, instance string, n notice) (string, error) {
	if n.Action == announce {
		d.drainer.events.Eventf(node, corev1.EventTypeNormal, string(n.Cause), "Instance %s: %s (notice %s)", instance, n.Type, n.ID)
		return resultTold, nil
	}
	r := drainRecord{State: stateDraining, Cause: n.Cause, Notice: n.ID, Instance: instance, Lifecycle: n.Lifecycle, Since: time.Now().UTC()}
	marked, recorded, err := d.drainer.mark(ctx, node.Name, r)
	switch {
	case err != nil:
		return resultFailed, err
	case marked == nil:
		return resultDuplicate, nil
	case recorded.drain() != r.drain():
		d.adopt(ctx, marked, recorded, abandonedAfter)
		return d.afterAnother(ctx, recorded, r)
	}
	log.Info("node cordoned and tainted", "node", marked.Name, "instance", instance)
	d.drainer.events.Eventf(marked, corev1.EventTypeWarning, string(n.Cause), "Instance %s: %s (notice %s)", instance, n.Type, n.ID)
	d.drainer.events.Eventf(marked, corev1.EventTypeNormal, "Draining", "Evicting pods (notice %s)", n.ID)
	d.start(marked.Name, r)
	return resultDraining, nil
}

// start starts draining the node. It returns false if this process already does.
func (d *dispatcher) start(node string, r drainRecord) bool {
	key := node + " " + r.drain()
	if _, running := d.running.LoadOrStore(key, true); running {
		return false
	}
	d.drains.Go(func() {
		defer d.running.Delete(key)
		d.drainer.drain(d.drainCtx, node, r)
	})
	return true
}
