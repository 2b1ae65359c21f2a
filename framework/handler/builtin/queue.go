package builtin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Settings of the queue's calls, as Karpenter has them.
const (
	longPoll      = 20 * time.Second
	visibility    = 20 * time.Second
	maxMessages   = 10 // SQS's own limit for one call
	receiveWithin = longPoll + 5*time.Second
	callWithin    = 5 * time.Second
)

// queue is one SQS queue. It calls ReceiveMessage, DeleteMessage and, if the queue is
// given by name, GetQueueUrl: the handler's policy allows no more.
type queue struct {
	api     *sqs.Client
	url     string
	metrics *metrics
	log     *slog.Logger
}

// backoff is short: a notice that waits in the queue loses part of its two minutes.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 2 * time.Second}
}

// loadAWS is the configuration of the handler's AWS clients.
func loadAWS(ctx context.Context, cfg Config) (aws.Config, error) {
	loaded, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return loaded, fmt.Errorf("load the AWS configuration: %w", err)
	}
	// This package retries itself, so that each failure is counted and no wait is long.
	loaded.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	if cfg.Region != "" {
		loaded.Region = cfg.Region
	}
	// The host of a queue's URL is only a name: LocalStack's does not resolve in a pod.
	if cfg.Endpoint != "" {
		loaded.BaseEndpoint = aws.String(cfg.Endpoint)
	}
	return loaded, nil
}

// openQueue makes a client of SQS. If needed, it requests the queue's URL until there is an
// answer or ctx is done.
func openQueue(ctx context.Context, loaded aws.Config, cfg Config, m *metrics, log *slog.Logger) (*queue, error) {
	api := sqs.NewFromConfig(loaded)
	q := &queue{api: api, url: cfg.QueueURL, metrics: m, log: log}
	if q.url != "" {
		return q, nil
	}
	err := q.retry(ctx, "GetQueueUrl", func(ctx context.Context) error {
		out, err := api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(cfg.QueueName)})
		if err == nil {
			q.url = aws.ToString(out.QueueUrl)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find queue %q: %w", cfg.QueueName, err)
	}
	return q, nil
}

// receive waits up to poll for messages, in whole seconds; 0 for a short poll.
func (q *queue) receive(ctx context.Context, poll time.Duration) ([]types.Message, error) {
	bounded, cancel := context.WithTimeout(ctx, receiveWithin)
	defer cancel()
	out, err := q.api.ReceiveMessage(bounded, &sqs.ReceiveMessageInput{
		QueueUrl:            aws.String(q.url),
		MaxNumberOfMessages: maxMessages,
		WaitTimeSeconds:     int32(poll.Seconds()),
		VisibilityTimeout:   int32(visibility.Seconds()),
	})
	if err != nil {
		if ctx.Err() == nil {
			q.failed("ReceiveMessage", err)
		}
		return nil, fmt.Errorf("receive messages: %w", err)
	}
	return out.Messages, nil
}

// delete deletes a message. It retries until the message would be redelivered anyway, or
// its receipt handle is refused: only the next one will do then.
func (q *queue) delete(ctx context.Context, m types.Message) error {
	ctx, cancel := context.WithTimeout(ctx, visibility)
	defer cancel()
	err := q.retry(ctx, "DeleteMessage", func(ctx context.Context) error {
		_, err := q.api.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: aws.String(q.url), ReceiptHandle: m.ReceiptHandle})
		return err
	})
	if err != nil {
		q.metrics.deletes.WithLabelValues("failed").Inc()
		return fmt.Errorf("delete message %s: %w", aws.ToString(m.MessageId), err)
	}
	q.metrics.deletes.WithLabelValues("deleted").Inc()
	return nil
}

// retry calls until it succeeds or ctx is done, whose error then comes with the
// last failure.
func (q *queue) retry(ctx context.Context, action string, call func(context.Context) error) error {
	for pause := backoff(); ; {
		bounded, cancel := context.WithTimeout(ctx, callWithin)
		err := call(bounded)
		cancel()
		if err == nil {
			return nil
		}
		q.failed(action, err)
		if stale := (*types.ReceiptHandleIsInvalid)(nil); errors.As(err, &stale) {
			return err
		}
		if !sleep(ctx, pause.Step()) {
			return errors.Join(err, ctx.Err())
		}
	}
}

func (q *queue) failed(action string, err error) {
	q.metrics.queueErrors.WithLabelValues(action).Inc()
	q.log.Warn("queue call failed", "action", action, "error", err)
}

// sleep returns false when ctx was done first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
