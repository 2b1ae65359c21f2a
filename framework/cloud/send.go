package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// SendToQueue sends the notice's events directly to any SQS queue, as EventBridge would
// deliver them. It returns the ids of the SQS messages, also of those that were sent
// before an error. Nothing is retried.
func SendToQueue(ctx context.Context, cfg aws.Config, queueURL string, n Notice) ([]string, error) {
	envelopes, err := n.Envelopes(cfg.Region, time.Now())
	if err != nil {
		return nil, fmt.Errorf("send notice: %w", err)
	}
	client := sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} })
	var ids []string
	for _, e := range envelopes {
		body, err := e.Body()
		if err != nil {
			return ids, err
		}
		out, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &queueURL, MessageBody: &body})
		if err != nil {
			return ids, fmt.Errorf("send notice %s to %s: %w", n.Type, queueURL, err)
		}
		ids = append(ids, aws.ToString(out.MessageId))
	}
	return ids, nil
}

// ErrReservedSource is why EventBridge in AWS refuses these events: only AWS itself may
// send events with the source aws.ec2 or aws.health.
var ErrReservedSource = errors.New("EventBridge refuses events whose source begins with \"aws.\" from anybody but AWS: send them directly to the queue")

// SendToBus puts the notice's events on an event bus, given by name or ARN, whose rules
// then decide. It returns the ids of the events, empty for refused ones. Nothing is
// retried.
func SendToBus(ctx context.Context, cfg aws.Config, bus string, n Notice) ([]string, error) {
	envelopes, err := n.Envelopes(cfg.Region, time.Now())
	if err != nil {
		return nil, fmt.Errorf("send notice: %w", err)
	}
	client := eventbridge.NewFromConfig(cfg, func(o *eventbridge.Options) { o.Retryer = aws.NopRetryer{} })
	ids, err := putEvents(ctx, client, bus, envelopes)
	if err != nil {
		err = fmt.Errorf("send notice %s to event bus %s: %w", n.Type, bus, err)
	}
	return ids, err
}
