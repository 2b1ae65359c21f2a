package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// heartbeatTimeout is how long the stream may be silent.
	heartbeatTimeout = 5 * time.Second
	maxLine          = 1 << 20 // bytes
)

// Collect reads the stream of GET /records into rec and rebases every time to clock.
// After stop is closed it reads the records of the time before, and returns nil. When
// ctx is cancelled, it returns nil at once. A stream that ends by itself, lacks its
// anchor, skips a record, is silent for five seconds, or reports that the proxy itself failed
// is an error. The caller closes body.
func Collect(ctx context.Context, stop <-chan struct{}, body io.Reader, clock *history.Clock, rec *history.Recorder) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan line)
	broken := make(chan error, 1)
	go func() { broken <- readLines(ctx, body, lines) }()

	c := collector{clock: clock, rec: rec}
	silence := time.NewTimer(heartbeatTimeout)
	defer silence.Stop()
	until := time.Duration(math.MaxInt64)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-stop:
			stop, until = nil, clock.Now()
		case l := <-lines:
			if err := c.take(l); err != nil {
				return fmt.Errorf("proxy's records: %w", err)
			}
			if l.Heartbeat != nil && *l.Heartbeat+c.shift-c.bound > until {
				return nil
			}
			silence.Reset(heartbeatTimeout)
		case err := <-broken:
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("proxy's records: %w", err)
		case <-silence.C:
			return fmt.Errorf("proxy's records: no record and no heartbeat for %s", heartbeatTimeout)
		}
	}
}

// readLines sends every line of body. Its error is never nil.
func readLines(ctx context.Context, body io.Reader, lines chan<- line) error {
	scanner := bufio.NewScanner(body)
	scanner.Buffer(nil, maxLine)
	for n := 1; scanner.Scan(); n++ {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		select {
		case lines <- l:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	return errors.New("the stream ended")
}

// collector puts the lines of one stream into a history.
type collector struct {
	clock    *history.Clock
	rec      *history.Recorder
	anchored bool
	shift    time.Duration
	bound    time.Duration
	lastSeq  int
}

func (c *collector) take(l line) error {
	switch {
	case l.Anchor != nil:
		if c.anchored {
			return errors.New("a second anchor")
		}
		c.anchored = true
		c.shift, c.bound = c.clock.Rebase(*l.Anchor)
		return nil
	case !c.anchored:
		return errors.New("the first line is not the anchor")
	case l.Heartbeat != nil:
		return nil
	case l.Event == nil:
		return errors.New("a line that is neither event nor heartbeat")
	}
	return c.record(*l.Event)
}

func (c *collector) record(e history.Event) error {
	switch e.Kind {
	case history.SQSCall, history.SQSReceived, history.SQSDeleted, history.FaultBegun, history.FaultHit, history.FaultEnded,
		history.APICall, history.APIFolded, history.APIWatching, history.LifecycleActed:
	default:
		return fmt.Errorf("event of unexpected kind %q", e.Kind)
	}
	if c.lastSeq != 0 && e.Seq != c.lastSeq+1 {
		return fmt.Errorf("record %d follows %d", e.Seq, c.lastSeq)
	}
	c.lastSeq = e.Seq
	e.At += c.shift
	if c.bound > 0 {
		if e.Numbers == nil {
			e.Numbers = history.Numbers{}
		}
		e.Numbers[history.ClockBound] = c.bound.Seconds()
	}
	c.rec.Record(e)
	if e.Kind == history.APICall && e.Owner == history.ProxyOwner {
		// The handler got an error that no API server and no fault gave.
		return fmt.Errorf("the proxy did not reach the API server: %s", e.Note)
	}
	return nil
}
