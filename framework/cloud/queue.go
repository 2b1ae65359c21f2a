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
		string(sqstypes.QueueAttributeNameRedrivePolicy),
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
// to what it was.
func (a *AWS) KeepMessages(ctx context.Context, d time.Duration) (putBack func(context.Context) error, err error) {
	if a.queueURL == "" {
		return nil, fmt.Errorf("set the retention: %w", errNoQueue)
	}
	const attribute = sqstypes.QueueAttributeNameMessageRetentionPeriod
	was, err := a.attributes(ctx, attribute)
	if err != nil {
		return nil, fmt.Errorf("set the retention: read it: %w", err)
	}
	set := func(ctx context.Context, seconds string) error {
		_, err := a.queues.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &a.queueURL, Attributes: map[string]string{string(attribute): seconds}})
		return wrap.Errorf(err, "set the retention to %s s", seconds)
	}
	return func(ctx context.Context) error { return set(ctx, was[string(attribute)]) }, set(ctx, strconv.Itoa(int(d.Seconds())))
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
