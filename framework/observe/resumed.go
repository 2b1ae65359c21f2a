package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// silentFor is how long nothing may come of a record that gets queries all the time: the
	// connection through a node that is gone stays open.
	silentFor = 8 * time.Second
	// resumeWithin is how long a prober goes on without a connection, and how long it is tried to
	// get another one: an API server that is replaced is back by then.
	resumeWithin = 35 * time.Second
	// resumeEvery is the time between two attempts.
	resumeEvery = 500 * time.Millisecond
	// lastAttempt is how long it is tried after the observation has ended.
	lastAttempt = 3 * time.Second
)

// resumed is the record of a prober, which is read to its end over as many connections as that
// takes.
type resumed struct {
	// open reads the record from a byte on.
	open func(ctx context.Context, from int64) (io.ReadCloser, error)
	// ending is closed when the observation has ended.
	ending <-chan struct{}
	// again is called when the record goes on after a break: how long that took, and why.
	again func(took time.Duration, why error)
	// silentFor and within bound a silence and a break.
	silentFor, within time.Duration

	body   io.ReadCloser
	hangUp context.CancelFunc // ends body, also a Read of it
	timer  *time.Timer        // hangs up after a silence
	read   int64
	ended  int64 // at which byte the record seemed to end; 0 if it did not
}

// begin takes the connection that a record begins on, and what ends it.
func (r *resumed) begin(body io.ReadCloser, hangUp context.CancelFunc) {
	r.body, r.hangUp = body, hangUp
	r.timer = time.AfterFunc(r.silentFor, hangUp)
}

// Read reads what comes, over another connection if one breaks.
func (r *resumed) Read(b []byte) (int, error) {
	for {
		n, err := r.body.Read(b)
		r.read += int64(n)
		switch {
		case n > 0:
			r.timer.Reset(r.silentFor)
			return n, nil // an error comes again
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			// A server on the way may have closed the connection in good order.
			if r.ended == r.read || r.connect(answerTimeout) != nil {
				return 0, io.EOF
			}
			r.ended = r.read
		default:
			if err := r.resume(err); err != nil {
				return 0, err
			}
		}
	}
}

// resume gets another connection, or returns why the former one broke and none came.
func (r *resumed) resume(cause error) error {
	if !r.timer.Stop() {
		cause = fmt.Errorf("nothing came of it for %s: %w", r.silentFor, cause)
	}
	broke, last := time.Now(), r.within
	for {
		err := r.connect(last)
		if err == nil {
			r.again(time.Since(broke), cause)
			return nil
		}
		if final(err) {
			return fmt.Errorf("%w; and it cannot be read further: %w", cause, err)
		}
		select {
		case <-time.After(resumeEvery):
		case <-r.ending:
			if last == lastAttempt {
				return fmt.Errorf("%w; and its prober could not be reached at the end: %w", cause, err)
			}
			last = lastAttempt
		}
		if time.Since(broke) > r.within {
			return fmt.Errorf("%w; and its prober could not be reached for %s: %w", cause, r.within, err)
		}
	}
}

// connect opens the record where it was left, within a time.
func (r *resumed) connect(within time.Duration) error {
	r.hangUp()
	_ = r.body.Close()
	ctx, hangUp := context.WithCancel(context.Background())
	slow := time.AfterFunc(min(within, answerTimeout), hangUp)
	body, err := r.open(ctx, r.read)
	slow.Stop()
	if err != nil {
		hangUp()
		return err
	}
	r.body, r.hangUp = body, hangUp
	r.timer = time.AfterFunc(r.silentFor, hangUp)
	return nil
}

// final reports whether another attempt is of no use: the pod, or that part of its record, is gone.
func final(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsGone(err) || apierrors.IsResourceExpired(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
}

// Close ends the record.
func (r *resumed) Close() error {
	r.timer.Stop()
	r.hangUp()
	return r.body.Close()
}
