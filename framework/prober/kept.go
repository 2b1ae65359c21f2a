package prober

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// keepBytes is how much of a record is kept for a reader that comes again: some 20 minutes at 50
// queries/s with their controls, and 30 s at 20,000.
const keepBytes = 16 << 20

// keptRecord is a record in memory: it is written without waiting for a reader, and a reader may
// begin anywhere in what is kept.
type keptRecord struct {
	mu      sync.Mutex
	kept    []byte
	first   int64         // the place of kept[0] in the record
	ended   bool          // nothing more is written
	changed chan struct{} // closed with the next change
}

func newKeptRecord() *keptRecord { return &keptRecord{changed: make(chan struct{})} }

// Write appends to the record. It drops the oldest part of what is too much to keep.
func (k *keptRecord) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, b...)
	if len(k.kept) > keepBytes+keepBytes/4 { // not each time: it copies
		k.drop(len(k.kept) - keepBytes)
	}
	k.change()
	return len(b), nil
}

// end reports that the record is whole.
func (k *keptRecord) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.change()
}

// forget drops what lies before a place.
func (k *keptRecord) forget(before int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := int(before - k.first); n > 1<<16 { // it copies
		k.drop(min(n, len(k.kept)))
	}
}

func (k *keptRecord) drop(n int) {
	k.kept = append(k.kept[:0], k.kept[n:]...)
	k.first += int64(n)
}

func (k *keptRecord) change() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// from returns a copy of what is kept from a place on, whether the record is whole with it, and
// what is closed when there is more.
func (k *keptRecord) from(place int64) (part []byte, whole bool, more <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.first + int64(len(k.kept)); place < k.first || place > last {
		return nil, false, nil, fmt.Errorf("the record is kept from byte %d to %d, and does not go on at %d", k.first, last, place)
	}
	part = append(part, k.kept[place-k.first:]...)
	return part, k.ended, k.changed, nil
}

// send writes the record to a client from a place on, until it is whole, the client is gone or ctx
// ends, and reports whether the client got its end. delivered is called with how far it is.
func (k *keptRecord) send(ctx context.Context, w http.ResponseWriter, place int64, delivered func(int64)) bool {
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the connection may be used again
	for {
		part, whole, more, err := k.from(place)
		if err != nil || control.SetWriteDeadline(time.Now().Add(writeWithin)) != nil {
			return false
		}
		if _, err := w.Write(part); err != nil || control.Flush() != nil {
			return false
		}
		place += int64(len(part))
		delivered(place)
		if whole {
			return true
		}
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}

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
