package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// The second reader is sure to get the message: of two that wait, LocalStack gives it to the one that
// waits longer, and the recording proxy asks again each second for the handler.
const (
	readWait  = 20 * time.Second // for a message; SQS permits no more
	readAhead = 2 * time.Second  // that it waits already when the next step begins
)

// queueFaults are faults that are done to the queue itself.
type queueFaults struct {
	*drill
	aws *cloud.AWS
}

// begin begins a fault that is done to the queue itself. What it changes is put back at its
// end, in any case.
func (q queueFaults) begin(ctx context.Context, f fault.Fault) error {
	look, do := q.lookForReads, func(context.Context) (func(context.Context) error, error) { return nil, nil }
	switch f.Type {
	case history.RecreatedQueue:
		look, do = q.lookForRefusals(q.now()), q.aws.DeleteQueue
	case history.ShortRetention:
		look, do = q.lookForExpiries(), func(ctx context.Context) (func(context.Context) error, error) {
			return q.aws.KeepMessages(ctx, history.ShortestRetention)
		}
	}
	var undone error
	faults := fault.New(q.Record)
	a, err := faults.BeginWith(f, func() (func(), error) {
		undo, err := do(ctx)
		if undo == nil {
			return nil, err
		}
		return func() { undone = undo(context.WithoutCancel(ctx)) }, err
	})
	if err != nil {
		return err
	}
	q.meanwhile.Go(func() error {
		err := q.recordHits(ctx, faults, a, look)
		faults.Clear() // if the drill was interrupted
		return wrap.Errorf(errors.Join(err, undone), "fault %s", f.Name)
	})
	if f.Type == history.SecondReader {
		return q.sleep(ctx, readAhead)
	}
	return nil
}

// lookFor returns what a fault of the queue has hit since it was last called.
type lookFor func(context.Context) ([]history.Detail, error)

// recordHits records what a fault of the queue hits until its end.
func (q queueFaults) recordHits(ctx context.Context, faults *fault.Faults, a *fault.Active, look lookFor) error {
	lasting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-a.Over():
		case <-lasting.Done():
		}
	}()
	for lasting.Err() == nil {
		found, err := look(lasting)
		if err != nil && lasting.Err() == nil {
			return err
		}
		for _, hit := range found {
			if faults.Take(func(fault.Fault) bool { return true }) == nil {
				break
			}
			q.Record(a.Hit(hit))
			faults.Done(a)
		}
		if err := q.sleep(lasting, hitPoll); err != nil && lasting.Err() == nil {
			return err
		}
	}
	return ctx.Err()
}

// lookForRefusals looks for calls of the handler since begun that SQS refused because there is no
// such queue.
func (q queueFaults) lookForRefusals(begun time.Duration) lookFor {
	seen := 0
	return func(context.Context) ([]history.Detail, error) {
		var hits []history.Detail
		for _, e := range q.Events() {
			missing := e.ErrorCode() == history.QueueDoesNotExist || strings.HasSuffix(string(e.ErrorCode()), "NonExistentQueue")
			if e.Kind == history.SQSCall && e.At >= begun && missing {
				hits = append(hits, func(hit *history.Event) { hit.At, hit.Action = e.At, e.Action })
			}
		}
		now := hits[min(seen, len(hits)):]
		seen = len(hits)
		return now, nil
	}
}

// lookForExpiries looks for messages that went without being deleted.
func (q queueFaults) lookForExpiries() lookFor {
	before := 0
	return func(ctx context.Context) ([]history.Detail, error) {
		visible, invisible, err := q.aws.Depth(ctx)
		if err != nil {
			return nil, err
		}
		gone := before - visible - invisible
		before = visible + invisible
		deleted := slices.ContainsFunc(q.Events(), func(e history.Event) bool { return e.Kind == history.SQSDeleted })
		if gone <= 0 || deleted {
			return nil, nil
		}
		now := q.now()
		return slices.Repeat([]history.Detail{func(hit *history.Event) { hit.At, hit.Action = now, "expire" }}, gone), nil
	}
}

// lookForReads receives a message, which hides it from the handler for the queue's visibility
// timeout.
func (q queueFaults) lookForReads(ctx context.Context) ([]history.Detail, error) {
	read, err := q.aws.ReadOne(ctx, readWait)
	if err != nil || read == nil {
		return nil, err
	}
	now := q.now()
	return []history.Detail{func(hit *history.Event) {
		hit.At, hit.Action, hit.Message, hit.Notice = now, "ReceiveMessage", read.Message, read.Notice
	}}, nil
}
