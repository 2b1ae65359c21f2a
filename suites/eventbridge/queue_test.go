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
	skipped     string // why it is not played; empty if it is
	play        func(context.Context, *cloud.AWS) (got string, err error)
}

const (
	// late is how much later than SQS may a message come again or expire.
	late = 10 * time.Second
	// longest is the longest visibility timeout that is waited for.
	longest = 15 * time.Minute
)

// requirementTimeout is how long one requirement may take.
func (s *suite) requirementTimeout() time.Duration {
	return 3*time.Minute + s.template.Delay + min(s.template.VisibilityTimeout, longest)
}

// troubles are played with the visibility timeout, the delay and the dead-letter queue of the template. They
// leave the queue as it was, so that one can follow another.
func troubles(t cloud.Template) []trouble {
	q := queue{t}
	read := trouble{
		"message-of-another-reader", "A message that somebody else received is hidden for the visibility timeout, and there again then",
		fmt.Sprintf("hidden for %s, and received then", t.VisibilityTimeout), "", q.readTwice,
	}
	switch {
	case t.MaxReceives == 1:
		read.skipped = "a message is received once: then SQS moves it to the dead-letter queue (maxReceiveCount 1)"
	case t.VisibilityTimeout > longest:
		read.skipped = fmt.Sprintf("the visibility timeout is %s, and at most %s is waited for", t.VisibilityTimeout, longest)
	}
	expired := trouble{
		"message-expired", "A message that nobody receives is deleted when the retention of the queue is over",
		fmt.Sprintf("no message %s after it was sent", history.ShortestRetention), "", q.expire,
	}
	if t.Delay+late >= history.ShortestRetention {
		expired.skipped = fmt.Sprintf("the delay is %s, and a message with the shortest retention is never there", t.Delay)
	}
	return []trouble{{
		"queue-recreated", "A queue that is created again gets what is sent afterwards, and nothing that was sent while it was gone",
		"the notice after it, once", "", q.recreate,
	}, read, expired}
}

// queue is the queue under test.
type queue struct{ cloud.Template }

// judge plays it and compares what was seen.
func (t trouble) judge(ctx context.Context, aws *cloud.AWS) verdict.Verdict {
	v := verdict.New(verdict.Arrival, t.want)
	if t.skipped != "" {
		v.Outcome, v.Got = verdict.Skipped, t.skipped
		return v
	}
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

func (q queue) recreate(ctx context.Context, aws *cloud.AWS) (got string, err error) {
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
	arrivals, err := collect(ctx, aws, q.Delay, func(map[string][]cloud.Envelope) bool { return true })
	if err != nil {
		return "", err
	}
	if len(arrivals[after]) == 1 && len(arrivals) == 1 {
		return "the notice after it, once", nil
	}
	return fmt.Sprintf("the notice after it %d times, that of meanwhile %d times, %d notices in all", len(arrivals[after]), len(arrivals[meanwhile]), len(arrivals)), nil
}

func (q queue) readTwice(ctx context.Context, aws *cloud.AWS) (got string, err error) {
	if _, err := putNotice(ctx, aws); err != nil {
		return "", err
	}
	var read *cloud.Read
	for deadline := time.Now().Add(arrivalTimeout + q.Delay); read == nil && time.Now().Before(deadline); {
		if read, err = aws.ReadOne(ctx, arrivalTimeout); err != nil {
			return "", err
		}
	}
	if read == nil {
		return "the notice did not arrive", nil
	}
	since := time.Now()
	for time.Since(since) < q.VisibilityTimeout+late {
		bodies, err := aws.Take(ctx, time.Second)
		if err != nil {
			return "", err
		}
		if len(bodies) == 0 {
			continue
		}
		if hidden := time.Since(since).Round(time.Second); hidden < q.VisibilityTimeout-time.Second {
			return fmt.Sprintf("received again after %s", hidden), nil
		}
		return fmt.Sprintf("hidden for %s, and received then", q.VisibilityTimeout), nil
	}
	return fmt.Sprintf("not received again within %s", q.VisibilityTimeout+late), nil
}

func (q queue) expire(ctx context.Context, aws *cloud.AWS) (got string, err error) {
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
		case !arrived && age > arrivalTimeout+q.Delay:
			return "the notice did not arrive", nil
		case arrived && age < history.ShortestRetention-2*time.Second:
			return fmt.Sprintf("no message %s after it was sent", age), nil
		case arrived:
			return fmt.Sprintf("no message %s after it was sent", history.ShortestRetention), nil
		}
	}
	return fmt.Sprintf("a message %s after it was sent", history.ShortestRetention+late), nil
}
