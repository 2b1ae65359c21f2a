package prober

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
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
