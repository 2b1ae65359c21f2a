package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

const (
	deliveries = "spotdrill-deliveries"
	// attemptTimeout is how long LocalStack may take to evaluate all rules for an event: it does
	// so in tens of milliseconds, unless the machine is busy.
	attemptTimeout = 20 * time.Second
)

// Deliveries shows when an event was delivered to every target of the rules, or could not be.
// PutEvents answers before that.
type Deliveries struct {
	aws  *AWS // its queue is the one that gets every event
	seen map[string]bool
}

// WatchDeliveries adds a rule for every event, with a queue of its own. LocalStack evaluates the
// rules one after the other, in the order in which they were made: what this queue gets was
// tried at the targets of all rules that were there before. AWS promises no such order.
func (a *AWS) WatchDeliveries(ctx context.Context) (*Deliveries, error) {
	d := &Deliveries{aws: a.Another(), seen: map[string]bool{}}
	created, err := d.aws.queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(deliveries)})
	if err != nil {
		return nil, fmt.Errorf("watch deliveries: create queue %s: %w", deliveries, err)
	}
	d.aws.queueURL = aws.ToString(created.QueueUrl)
	const arn = sqstypes.QueueAttributeNameQueueArn
	attributes, err := d.aws.attributes(ctx, arn)
	if err == nil {
		_, err = d.aws.events.PutRule(ctx, &eventbridge.PutRuleInput{Name: aws.String(deliveries), EventPattern: aws.String(`{"source": [{"prefix": ""}]}`)})
	}
	if err == nil {
		_, err = d.aws.events.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: aws.String(deliveries), Targets: []eventstypes.Target{
			{Id: aws.String(deliveries), Arn: aws.String(attributes[string(arn)])},
		}})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch deliveries: %w", err), d.Close(ctx))
	}
	return d, nil
}

// WaitTried waits until all rules were evaluated for the event with that id, up to 20 s.
func (d *Deliveries) WaitTried(ctx context.Context, id string) error {
	return wait.Until(ctx, attemptTimeout, "the delivery of event "+id, func(ctx context.Context) string {
		bodies, err := d.aws.Take(ctx, time.Second)
		if err != nil {
			return err.Error()
		}
		for _, body := range bodies {
			var event Envelope
			if err := json.Unmarshal([]byte(body), &event); err != nil {
				return "a message that is no event: " + err.Error()
			}
			d.seen[event.ID] = true
		}
		if !d.seen[id] {
			return fmt.Sprintf("%d other events", len(d.seen))
		}
		return ""
	})
}

// Close removes the rule and its queue.
func (d *Deliveries) Close(ctx context.Context) error {
	_, targets := d.aws.events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: aws.String(deliveries), Ids: []string{deliveries}})
	var missing *eventstypes.ResourceNotFoundException
	if errors.As(targets, &missing) {
		targets = nil
	}
	_, rule := d.aws.events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: aws.String(deliveries)})
	_, queue := d.aws.queues.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &d.aws.queueURL})
	return wrap.Errorf(errors.Join(targets, rule, queue), "stop watching deliveries")
}
