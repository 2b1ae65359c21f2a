package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// silentFor is how long nothing may come of a record that gets queries all the time: the
	// connection through a node that is gone stays open.
	silentFor = 8 * time.Second
	// resumeWithin is how long a prober goes on without a reader of its record, and bounds the
	// attempts to read on, while the API server answers.
	resumeWithin = 35 * time.Second
	// serverWithin is how long the API server may be away: the only one of a cluster that is
	// restarted, for about a minute.
	serverWithin = 5 * time.Minute
	// resumeEvery is the time between two attempts.
	resumeEvery = 500 * time.Millisecond
	// lastAttempt bounds the last attempt, after the observation has ended.
	lastAttempt = 3 * time.Second
)

// parts is the record of a prober, which is read part by part: each is a request of a few seconds,
// so that none holds up an API server that shuts down, and the next one may go to another server.
type parts struct {
	// open reads the record from a byte on, for a while.
	open func(ctx context.Context, from int64) (io.ReadCloser, error)
	// ending is closed when the observation has ended.
	ending <-chan struct{}
	// resumed is called when the record goes on after a break: how long that took, and why.
	resumed func(took time.Duration, why error)
	// silentFor bounds a silence, within a break while the API server answers, and away a break.
	silentFor, within, away time.Duration

	part   io.ReadCloser      // nil between two parts
	hangUp context.CancelFunc // ends part, also a Read of it
	timer  *time.Timer        // hangs up after a silence
	read   int64
}

// Read reads what comes.
func (p *parts) Read(b []byte) (int, error) {
	for {
		var err error
		if p.part == nil {
			if err = p.next(answerTimeout); whole(err) {
				return 0, io.EOF
			}
		}
		if err == nil {
			var n int
			n, err = p.part.Read(b)
			if p.read += int64(n); n > 0 {
				p.timer.Reset(p.silentFor)
				return n, nil // an error comes again
			}
		}
		switch {
		case err == nil:
		case p.part != nil && errors.Is(err, io.EOF):
			p.leave()
		default:
			if err = p.resume(err); whole(err) {
				return 0, io.EOF
			} else if err != nil {
				return 0, err
			}
		}
	}
}

// resume opens the next part after an error, or returns that error and why it cannot be read on.
func (p *parts) resume(cause error) error {
	if !p.leave() {
		cause = fmt.Errorf("nothing came of it for %s: %w", p.silentFor, cause)
	}
	broke, last := time.Now(), p.within
	for counted := time.Duration(0); ; {
		began := time.Now()
		err := p.next(last)
		switch {
		case err == nil:
			p.resumed(time.Since(broke), cause)
			return nil
		case whole(err):
			return err
		case final(err):
			return fmt.Errorf("%w; and it cannot be read further: %w", cause, err)
		}
		select {
		case <-time.After(resumeEvery):
		case <-p.ending:
			if last == lastAttempt {
				return fmt.Errorf("%w; and its prober could not be reached at the end: %w", cause, err)
			}
			last = lastAttempt
		}
		if statusOf(err) != 0 {
			counted += time.Since(began)
		}
		if counted > p.within || time.Since(broke) > p.away {
			return fmt.Errorf("%w; and its prober could not be reached for %s: %w", cause, time.Since(broke).Round(time.Second), err)
		}
	}
}

// next opens the next part, within a time.
func (p *parts) next(within time.Duration) error {
	ctx, hangUp := context.WithCancel(context.Background())
	slow := time.AfterFunc(min(within, answerTimeout), hangUp)
	part, err := p.open(ctx, p.read)
	slow.Stop()
	if err != nil {
		hangUp()
		return err
	}
	p.part, p.hangUp = part, hangUp
	p.timer = time.AfterFunc(p.silentFor, hangUp)
	return nil
}

// leave ends a part, and reports whether it was not silence that ended it.
func (p *parts) leave() bool {
	if p.part == nil {
		return true
	}
	heard := p.timer.Stop()
	p.hangUp()
	_ = p.part.Close()
	p.part = nil
	return heard
}

// Close ends the record.
func (p *parts) Close() error {
	p.leave()
	return nil
}

// whole reports whether a prober reported that its record has been read to its end.
func whole(err error) bool { return statusOf(err) == http.StatusRequestedRangeNotSatisfiable }

// final reports whether another attempt is of no use: the pod, or that part of its record, is gone.
func final(err error) bool {
	switch statusOf(err) {
	case http.StatusNotFound, http.StatusGone, http.StatusBadRequest: // 403 may pass: the authorizer of a new API server is not ready at once
		return true
	}
	return false
}

// statusOf is the status of an answer that is an error, or 0.
func statusOf(err error) int {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return int(status.Status().Code)
}
