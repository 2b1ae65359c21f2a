package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/spotdrill/spotdrill/framework/iam"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// retention is how long the queue of the stack keeps messages: MessageRetentionPeriod of stack.yaml.
const retention = 300 * time.Second

// settable are the attributes of a queue that CreateQueue takes.
func settable() []string {
	return []string{
		string(sqstypes.QueueAttributeNameDelaySeconds), string(sqstypes.QueueAttributeNameMaximumMessageSize),
		string(sqstypes.QueueAttributeNameMessageRetentionPeriod), string(sqstypes.QueueAttributeNamePolicy),
		string(sqstypes.QueueAttributeNameReceiveMessageWaitTimeSeconds), string(sqstypes.QueueAttributeNameSqsManagedSseEnabled),
		string(sqstypes.QueueAttributeNameVisibilityTimeout),
	}
}

// DeleteQueue deletes the queue with its messages. Create makes it again, with the name and the
// attributes that it had; AWS accepts that after history.DeletedFor.
func (a *AWS) DeleteQueue(ctx context.Context) (create func(context.Context) error, err error) {
	attributes, err := a.attributes(ctx, sqstypes.QueueAttributeNameAll)
	if err != nil {
		return nil, fmt.Errorf("delete queue: read its attributes: %w", err)
	}
	name := path.Base(a.queueURL)
	for attribute := range attributes {
		if !slices.Contains(settable(), attribute) {
			delete(attributes, attribute)
		}
	}
	if _, err := a.queues.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &a.queueURL}); err != nil {
		return nil, fmt.Errorf("delete queue %s: %w", name, err)
	}
	return func(ctx context.Context) error {
		_, err := a.queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		return wrap.Errorf(err, "create queue %s again", name)
	}, nil
}

// KeepMessages sets how long the queue keeps messages, at least history.ShortestRetention. Put back sets it
// to what the stack has.
func (a *AWS) KeepMessages(ctx context.Context, d time.Duration) (putBack func(context.Context) error, err error) {
	if a.queueURL == "" {
		return nil, fmt.Errorf("set the retention: %w", errNoQueue)
	}
	set := func(ctx context.Context, d time.Duration) error {
		attributes := map[string]string{string(sqstypes.QueueAttributeNameMessageRetentionPeriod): strconv.Itoa(int(d.Seconds()))}
		_, err := a.queues.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &a.queueURL, Attributes: attributes})
		return wrap.Errorf(err, "set the retention to %s", d)
	}
	return func(ctx context.Context) error { return set(ctx, retention) }, set(ctx, d)
}

// A Read is a message that was received and left in the queue.
type Read struct {
	Message string // its id
	Notice  string // the id of the event in it; empty if it has none
}

// ReadOne receives one message and does not delete it, as the console of SQS does when it polls: the
// message comes again when the queue's visibility timeout is over. It waits up to wait (whole
// seconds, at most 20) and returns nil if none came.
func (a *AWS) ReadOne(ctx context.Context, wait time.Duration) (*Read, error) {
	if a.queueURL == "" {
		return nil, fmt.Errorf("read a message: %w", errNoQueue)
	}
	out, err := a.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &a.queueURL, MaxNumberOfMessages: 1, WaitTimeSeconds: int32(wait.Seconds()),
	})
	if err != nil {
		return nil, fmt.Errorf("read a message: %w", err)
	}
	if len(out.Messages) == 0 {
		return nil, nil
	}
	var event Envelope
	_ = json.Unmarshal([]byte(aws.ToString(out.Messages[0].Body)), &event) // a message need not be an event
	return &Read{Message: aws.ToString(out.Messages[0].MessageId), Notice: event.ID}, nil
}

// findQueue is the URL of the queue with that name; "" if there is none.
func findQueue(ctx context.Context, client *sqs.Client, name string) (url string, err error) {
	found, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	switch missing := (*sqstypes.QueueDoesNotExist)(nil); {
	case errors.As(err, &missing):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("find queue %s: %w", name, err)
	}
	return aws.ToString(found.QueueUrl), nil
}

// eventBridge is the principal that delivers what rules match.
const eventBridge = "events.amazonaws.com"

// RefusesEventBridge returns why the queue's policy does not let EventBridge send to
// the queue, or "" if it does. LocalStack ignores the policy; AWS does not:
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html.
func (a *AWS) RefusesEventBridge(ctx context.Context) (why string, err error) {
	const document, arn = sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameQueueArn
	found, err := a.attributes(ctx, document, arn)
	if err != nil {
		return "", fmt.Errorf("queue policy: %w", err)
	}
	return whyRefused(found[string(document)], found[string(arn)]), nil
}

// whyRefused returns why the policy does not let EventBridge send to the queue, or "".
func whyRefused(policy, queue string) string {
	if policy == "" {
		return "the queue has no policy, and without one " + eventBridge + " may not send to it"
	}
	p, err := iam.ParseResource([]byte(policy))
	if err != nil {
		return "the queue's policy cannot be read: " + err.Error()
	}
	switch allowed, denied := p.Lets(eventBridge, "sqs:SendMessage", queue); {
	case denied:
		return "the queue's policy denies sqs:SendMessage to " + eventBridge
	case !allowed:
		return "no statement of the queue's policy allows sqs:SendMessage on " + queue + " to " + eventBridge
	}
	return ""
}
