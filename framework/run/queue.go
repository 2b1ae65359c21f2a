package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// The second reader is sure to get the message: of two that wait, LocalStack gives it to the one that
// waits longer, and the recording proxy asks again each second for the handler.
const (
	readWait  = 20 * time.Second // for a message; SQS permits no more
	readAhead = 2 * time.Second  // that it waits already when the next step begins
)

// beginQueueFault begins a fault that is done to the queue itself. It ends when its time is over, or
// when it has hit as often as it should. What it changed is put back then, in any case.
func (r *runner) beginQueueFault(ctx context.Context, f scenarios.Fault) error {
	begun := r.rec.Clock().Now()
	look, undo := r.lookForReads, func(context.Context) error { return nil }
	var err error
	switch f.Type {
	case history.RecreatedQueue:
		look = r.lookForRefusals(begun)
		undo, err = r.sys.AWS.DeleteQueue(ctx)
	case history.ShortRetention:
		look = r.lookForExpiries()
		undo, err = r.sys.AWS.KeepMessages(ctx, history.ShortestRetention)
	}
	if err != nil {
		return fmt.Errorf("begin fault %s: %w", f.Name, err)
	}
	r.rec.Record(history.NewFaultBegun(f.Name, f.Type, history.At(begun)))
	r.meanwhile.Go(func() error {
		why, err := r.recordQueueHits(ctx, f, begun+f.For.D(), look)
		err = errors.Join(err, undo(context.WithoutCancel(ctx)))
		if err != nil {
			return fmt.Errorf("fault %s: %w", f.Name, err)
		}
		r.rec.Record(history.NewFaultEnded(f.Name, why))
		return nil
	})
	if f.Type == history.SecondReader {
		return r.sleep(ctx, readAhead)
	}
	return nil
}

// lookFor returns what a fault of the queue has hit since it was last called.
type lookFor func(context.Context) ([]history.Detail, error)

// recordQueueHits records what a fault of the queue hits until its end, and returns why it ended.
func (r *runner) recordQueueHits(ctx context.Context, f scenarios.Fault, until time.Duration, look lookFor) (why string, err error) {
	for hits := 0; ; {
		looking, cancel := context.WithTimeout(ctx, until-r.rec.Clock().Now())
		found, err := look(looking)
		ended := looking.Err() != nil
		cancel()
		if err != nil && !ended {
			return "", err
		}
		for _, hit := range found {
			r.rec.Record(history.NewFaultHit(f.Name, f.Type, hit))
			hits++
		}
		now := r.rec.Clock().Now()
		switch {
		case f.Count > 0 && hits >= f.Count:
			return "count", nil
		case now >= until:
			return "time", nil
		}
		if err := r.sleepUntil(ctx, min(until, now+hitPoll)); err != nil {
			return "", err
		}
	}
}

// lookForRefusals looks for calls of the handler since begun that SQS refused because there is no
// such queue.
func (r *runner) lookForRefusals(begun time.Duration) lookFor {
	seen := 0
	return func(context.Context) ([]history.Detail, error) {
		var hits []history.Detail
		for _, e := range r.rec.Events() {
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
func (r *runner) lookForExpiries() lookFor {
	before := 0
	return func(ctx context.Context) ([]history.Detail, error) {
		visible, invisible, err := r.sys.AWS.Depth(ctx)
		if err != nil {
			return nil, err
		}
		gone := before - visible - invisible
		before = visible + invisible
		deleted := slices.ContainsFunc(r.rec.Events(), func(e history.Event) bool { return e.Kind == history.SQSDeleted })
		if gone <= 0 || deleted {
			return nil, nil
		}
		now := r.rec.Clock().Now()
		return slices.Repeat([]history.Detail{func(hit *history.Event) { hit.At, hit.Action = now, "expire" }}, gone), nil
	}
}

// lookForReads receives a message, which hides it from the handler for the queue's visibility
// timeout.
func (r *runner) lookForReads(ctx context.Context) ([]history.Detail, error) {
	read, err := r.sys.AWS.ReadOne(ctx, readWait)
	if err != nil || read == nil {
		return nil, err
	}
	now := r.rec.Clock().Now()
	return []history.Detail{func(hit *history.Event) {
		hit.At, hit.Action, hit.Message, hit.Notice = now, "ReceiveMessage", read.Message, read.Notice
	}}, nil
}
