package eventbridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// trouble is something that operators do to a queue, and what becomes of its messages then.
type trouble struct {
	name, title string
	want        string
	play        func(context.Context, *cloud.AWS) (got string, err error)
}

const (
	clauseTimeout = 3 * time.Minute
	// late is how much later than SQS may a message come again or expire.
	late = 10 * time.Second
	// visibilityTimeout is SQS's default, which the queue of the stack has.
	visibilityTimeout = 30 * time.Second
)

// troubles leave the queue as it was, so that one can follow another.
func troubles() []trouble {
	return []trouble{
		{
			"queue-recreated", "A queue that is created again gets what is sent afterwards, and nothing that was sent while it was gone",
			"the notice after it, once", recreate,
		},
		{
			"message-of-another-reader", "A message that somebody else received is hidden for the visibility timeout, and there again then",
			fmt.Sprintf("hidden for %s, and received then", visibilityTimeout), readTwice,
		},
		{
			"message-expired", "A message that nobody receives is deleted when the retention of the queue is over",
			fmt.Sprintf("no message %s after it was sent", history.ShortestRetention), expire,
		},
	}
}

// judge plays it and compares what was seen.
func (t trouble) judge(ctx context.Context, aws *cloud.AWS) verdict.Verdict {
	v := verdict.New(verdict.Arrival, t.want)
	got, err := t.play(ctx, aws)
	switch {
	case err != nil:
		v.Outcome, v.Got = verdict.Unknown, err.Error()
	case got != t.want:
		v.Outcome, v.Got = verdict.Fail, got
	default:
		v.Outcome, v.Got = verdict.Pass, got
	}
	return v
}

func putNotice(ctx context.Context, aws *cloud.AWS) (id string, err error) {
	ids, err := aws.PutEvents(ctx, []cloud.Envelope{notice(history.SpotInterruption, time.Now(), nil)})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

func recreate(ctx context.Context, aws *cloud.AWS) (got string, err error) {
	deliveries, err := aws.WatchDeliveries(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, deliveries.Close(context.WithoutCancel(ctx))) }()
	create, err := aws.DeleteQueue(ctx)
	if err != nil {
		return "", err
	}
	meanwhile, err := putNotice(ctx, aws)
	if err == nil {
		// LocalStack delivers after PutEvents has answered: on a busy machine, only once the queue is
		// there again.
		err = deliveries.WaitTried(ctx, meanwhile)
	}
	if err != nil {
		return "", errors.Join(err, create(ctx))
	}
	// In AWS, this is possible a minute later only.
	if err := create(ctx); err != nil {
		return "", err
	}
	after, err := putNotice(ctx, aws)
	if err != nil {
		return "", err
	}
	arrivals, err := collect(ctx, aws, func(map[string][]cloud.Envelope) bool { return true })
	if err != nil {
		return "", err
	}
	if len(arrivals[after]) == 1 && len(arrivals) == 1 {
		return "the notice after it, once", nil
	}
	return fmt.Sprintf("the notice after it %d times, that of meanwhile %d times, %d notices in all", len(arrivals[after]), len(arrivals[meanwhile]), len(arrivals)), nil
}

func readTwice(ctx context.Context, aws *cloud.AWS) (got string, err error) {
	if _, err := putNotice(ctx, aws); err != nil {
		return "", err
	}
	read, err := aws.ReadOne(ctx, arrivalTimeout)
	if err != nil || read == nil {
		return "the notice did not arrive", err
	}
	since := time.Now()
	for time.Since(since) < visibilityTimeout+late {
		bodies, err := aws.Take(ctx, time.Second)
		if err != nil {
			return "", err
		}
		if len(bodies) == 0 {
			continue
		}
		if hidden := time.Since(since).Round(time.Second); hidden < visibilityTimeout-time.Second {
			return fmt.Sprintf("received again after %s", hidden), nil
		}
		return fmt.Sprintf("hidden for %s, and received then", visibilityTimeout), nil
	}
	return fmt.Sprintf("not received again within %s", visibilityTimeout+late), nil
}

func expire(ctx context.Context, aws *cloud.AWS) (got string, err error) {
	putBack, err := aws.KeepMessages(ctx, history.ShortestRetention)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, putBack(context.WithoutCancel(ctx))) }()
	if _, err := putNotice(ctx, aws); err != nil {
		return "", err
	}
	sent := time.Now()
	for arrived := false; time.Since(sent) < history.ShortestRetention+late; time.Sleep(time.Second) {
		visible, invisible, err := aws.Depth(ctx)
		if err != nil {
			return "", err
		}
		age := time.Since(sent).Round(time.Second)
		switch left := visible + invisible; {
		case left > 0:
			arrived = true
		case !arrived && age > arrivalTimeout:
			return "the notice did not arrive", nil
		case arrived && age < history.ShortestRetention-2*time.Second:
			return fmt.Sprintf("no message %s after it was sent", age), nil
		case arrived:
			return fmt.Sprintf("no message %s after it was sent", history.ShortestRetention), nil
		}
	}
	return fmt.Sprintf("a message %s after it was sent", history.ShortestRetention+late), nil
}
