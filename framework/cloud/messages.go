package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// MaxEntries is how many events PutEvents takes in one call.
const MaxEntries = 10

// errNoQueue is the error of calls that need DeployStack first.
var errNoQueue = errors.New("no queue: the stack is not deployed")

// Put sends the notice to EventBridge and returns the id of each of its events. The
// envelope that arrives in the queue has the same id. Nothing is retried. If
// EventBridge refused an event, its id is empty and the error has the reason.
func (a *AWS) Put(ctx context.Context, n Notice) ([]string, error) {
	envelopes, err := n.Envelopes(a.region, time.Now())
	if err != nil {
		return nil, fmt.Errorf("put notice: %w", err)
	}
	ids, err := a.PutEvents(ctx, envelopes)
	return ids, wrap.Errorf(err, "put notice %s", n.Type)
}

// PutEvents sends events to EventBridge unchanged and returns their ids as Put does.
// EventBridge itself fills in version, id, account and region.
func (a *AWS) PutEvents(ctx context.Context, envelopes []Envelope) ([]string, error) {
	return putEvents(ctx, a.events, defaultBus, envelopes)
}

// defaultBus is the bus that AWS's own events arrive on.
const defaultBus = "default"

func putEvents(ctx context.Context, client *eventbridge.Client, bus string, envelopes []Envelope) ([]string, error) {
	var ids []string
	for chunk := range slices.Chunk(envelopes, MaxEntries) {
		put, err := putChunk(ctx, client, bus, chunk)
		ids = append(ids, put...)
		if err != nil {
			return ids, err
		}
	}
	return ids, nil
}

func putChunk(ctx context.Context, client *eventbridge.Client, bus string, envelopes []Envelope) ([]string, error) {
	entries := make([]ebtypes.PutEventsRequestEntry, len(envelopes))
	for i, e := range envelopes {
		detail, err := json.Marshal(e.Detail)
		if err != nil {
			return nil, fmt.Errorf("encode detail: %w", err)
		}
		at, err := time.Parse(time.RFC3339, e.Time)
		if err != nil {
			return nil, fmt.Errorf("time of the event: %w", err)
		}
		entries[i] = ebtypes.PutEventsRequestEntry{
			EventBusName: &bus, Source: &e.Source, DetailType: &e.DetailType, Time: &at, Resources: e.Resources, Detail: aws.String(string(detail)),
		}
	}
	out, err := client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: entries})
	if err != nil {
		return nil, err
	}
	if len(out.Entries) != len(entries) {
		return nil, fmt.Errorf("sent %s, got %s", history.Count(len(entries), "event"), history.Count(len(out.Entries), "answer"))
	}
	ids := make([]string, len(entries))
	var refused []error
	for i, entry := range out.Entries {
		ids[i] = aws.ToString(entry.EventId)
		if entry.ErrorCode != nil || ids[i] == "" {
			err := fmt.Errorf("event %d refused: %s: %s", i, aws.ToString(entry.ErrorCode), aws.ToString(entry.ErrorMessage))
			if aws.ToString(entry.ErrorCode) == "NotAuthorizedForSourceException" {
				err = fmt.Errorf("%w: %w", err, ErrReservedSource)
			}
			refused = append(refused, err)
		}
	}
	if out.FailedEntryCount > 0 && refused == nil {
		refused = append(refused, fmt.Errorf("%s refused without a reason", history.Count(out.FailedEntryCount, "event")))
	}
	return ids, errors.Join(refused...)
}

// SendRaw sends body directly to the queue, without EventBridge, and returns the SQS
// message id. SQS refuses an empty body. Nothing is retried.
func (a *AWS) SendRaw(ctx context.Context, body string) (messageID string, err error) {
	if a.queueURL == "" {
		return "", fmt.Errorf("send message: %w", errNoQueue)
	}
	out, err := a.queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &a.queueURL, MessageBody: &body},
		func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return "", fmt.Errorf("send message: %w", err)
	}
	return aws.ToString(out.MessageId), nil
}

// Take receives up to ten messages, deletes them and returns their bodies. It waits up
// to wait (whole seconds) for the first one.
func (a *AWS) Take(ctx context.Context, wait time.Duration) (bodies []string, err error) {
	if a.queueURL == "" {
		return nil, fmt.Errorf("take messages: %w", errNoQueue)
	}
	out, err := a.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &a.queueURL, MaxNumberOfMessages: MaxEntries, WaitTimeSeconds: int32(wait.Seconds()),
	})
	if err != nil {
		return nil, fmt.Errorf("take messages: %w", err)
	}
	for _, m := range out.Messages {
		if _, err := a.queues.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &a.queueURL, ReceiptHandle: m.ReceiptHandle}); err != nil {
			return bodies, fmt.Errorf("delete a received message: %w", err)
		}
		bodies = append(bodies, aws.ToString(m.Body))
	}
	return bodies, nil
}

// Purge empties the queue, including messages in flight, and checks the result.
// (Unlike AWS, LocalStack allows it more than once in 60 s.)
func (a *AWS) Purge(ctx context.Context) error {
	if a.queueURL == "" {
		return fmt.Errorf("purge queue: %w", errNoQueue)
	}
	if _, err := a.queues.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &a.queueURL}); err != nil {
		return fmt.Errorf("purge queue: %w", err)
	}
	visible, invisible, err := a.Depth(ctx)
	if err != nil {
		return fmt.Errorf("purge queue: %w", err)
	}
	if visible+invisible > 0 {
		return fmt.Errorf("purge queue: %d visible and %d invisible messages are left", visible, invisible)
	}
	return nil
}

// Depth counts the visible messages of the queue and the invisible ones: those that
// were received and neither deleted nor redelivered yet.
func (a *AWS) Depth(ctx context.Context) (visible, invisible int, err error) {
	const waiting, inFlight = sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible
	found, err := a.attributes(ctx, waiting, inFlight)
	if err != nil {
		return 0, 0, fmt.Errorf("queue depth: %w", err)
	}
	if visible, err = strconv.Atoi(found[string(waiting)]); err != nil {
		return 0, 0, fmt.Errorf("queue depth: %s: %w", waiting, err)
	}
	if invisible, err = strconv.Atoi(found[string(inFlight)]); err != nil {
		return 0, 0, fmt.Errorf("queue depth: %s: %w", inFlight, err)
	}
	return visible, invisible, nil
}

// attributes reads attributes of the queue.
func (a *AWS) attributes(ctx context.Context, names ...sqstypes.QueueAttributeName) (map[string]string, error) {
	if a.queueURL == "" {
		return nil, errNoQueue
	}
	return attributesOf(ctx, a.queues, a.queueURL, names...)
}

func attributesOf(ctx context.Context, client *sqs.Client, queueURL string, names ...sqstypes.QueueAttributeName) (map[string]string, error) {
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &queueURL, AttributeNames: names})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

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
	return ids, wrap.Errorf(err, "send notice %s to event bus %s", n.Type, bus)
}
