package prober

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// flushEvery is how long a settled query may wait: each flush wakes every process on the way to
// the reader.
const flushEvery = 100 * time.Millisecond

// partTime is how long a part of a record takes: an API server that shuts down waits for the
// requests that it passes on.
const partTime = 5 * time.Second

// runningProbe is a probe and its record. With patience, it goes on for some time without a reader:
// the connection through an API server ends with that server, and DNS does not.
type runningProbe struct {
	record   *keptRecord
	patience time.Duration
	quit     context.CancelFunc
	ended    chan struct{}
	// delivered is closed when a client has got the end of the record.
	delivered chan struct{}

	mu     sync.Mutex
	leave  context.CancelFunc // ends the reader that there is
	reader int                // which one that is
	alone  *Alone
}

// startProbe starts a probe, which ends with ctx.
func startProbe(ctx context.Context, plan Plan, patience time.Duration) *runningProbe {
	running, quit := context.WithCancel(ctx)
	p := &runningProbe{record: newKeptRecord(), patience: patience, quit: quit, ended: make(chan struct{}), delivered: make(chan struct{})}
	clock := history.NewClock()
	out := NewRecordWriter(p.record, clock, plan)
	over := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		ticker := time.NewTicker(flushEvery)
		defer ticker.Stop()
		for {
			_ = out.Flush() // into memory
			select {
			case <-ticker.C:
			case <-over:
				return
			}
		}
	})
	if patience > 0 {
		p.alone = NewAlone(patience)
		go func() {
			if p.alone.Wait(running) {
				quit()
			}
		}()
	}
	go func() {
		defer close(p.ended)
		defer quit()
		summary, err := Run(running, plan, clock, out.Query)
		close(over)
		flusher.Wait()
		_ = out.End(summary, err)
		p.record.end()
	}()
	return p
}

// runs reports whether the probe has not ended.
func (p *runningProbe) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// comesAgain is how soon a client requests the next part of a record.
const comesAgain = 3 * time.Second

// deliver waits until a client has got the end of the record, while one comes for it, or until ctx
// ends.
func (p *runningProbe) deliver(ctx context.Context) {
	ticker := time.NewTicker(comesAgain / 10)
	defer ticker.Stop()
	for p.patience > 0 && p.alone.For() < comesAgain {
		select {
		case <-p.delivered:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// send sends the record to a client from a place on: all of it, or a part if it may come again. A
// former client that still reads is gone.
func (p *runningProbe) send(w http.ResponseWriter, r *http.Request, place int64) {
	ctx, me := p.attach(r.Context())
	w.Header().Set("Content-Type", "application/octet-stream")
	whole := p.record.send(ctx, w, place, func(place int64) {
		if p.patience == 0 {
			p.record.forget(place)
		}
	})
	if p.detach(me, whole) {
		<-p.ended
	}
}

func (p *runningProbe) attach(ctx context.Context) (context.Context, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leave != nil {
		p.leave()
	}
	p.reader++
	if p.patience > 0 {
		p.alone.Hold()
		ctx, p.leave = context.WithTimeout(ctx, partTime)
	} else {
		ctx, p.leave = context.WithCancel(ctx)
	}
	return ctx, p.reader
}

// detach ends a reader, and reports whether the probe ends with it, or has ended.
func (p *runningProbe) detach(me int, whole bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if me != p.reader {
		return false
	}
	p.leave()
	if whole {
		select {
		case <-p.delivered:
		default:
			close(p.delivered)
		}
		return true
	}
	if p.patience > 0 {
		p.alone.Release()
		return false
	}
	p.quit()
	return true
}
