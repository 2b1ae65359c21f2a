package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	heartbeatInterval = 250 * time.Millisecond
	// maxBehind is how many records a reader may lag behind before its stream is
	// aborted: a silent gap would be worse.
	maxBehind = 4096
)

// line is one line of the record stream: first the anchor, then events and heartbeats.
// After a heartbeat come only events of a later time.
type line struct {
	Anchor    *history.Anchor `json:"anchor,omitempty"`
	Heartbeat *time.Duration  `json:"heartbeat,omitempty"` // ns since the anchor
	*history.Event
}

// records sends every event to the current readers.
type records struct {
	anchor  history.Anchor
	present func() []history.Event // what to record when a reader joins; may be nil
	every   time.Duration          // between two heartbeats

	mu      sync.Mutex
	seq     int
	readers map[chan history.Event]bool
}

func newRecords() *records {
	return &records{anchor: history.NewAnchor(), every: heartbeatInterval, readers: map[chan history.Event]bool{}}
}

func (r *records) now() time.Duration { return time.Since(r.anchor.Wall) }

func (r *records) add(events ...history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		r.seq++
		e.Seq = r.seq
		for reader := range r.readers {
			select {
			case reader <- e:
			default:
				delete(r.readers, reader)
				close(reader)
			}
		}
	}
}

func (r *records) join() chan history.Event {
	reader := make(chan history.Event, maxBehind)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readers[reader] = true
	return reader
}

func (r *records) leave(reader chan history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.readers, reader)
}

// serve streams the events from now on until the reader leaves.
func (r *records) serve(w http.ResponseWriter, req *http.Request) {
	events := r.join()
	defer r.leave(events)
	w.Header().Set("Content-Type", "application/jsonl")
	out, encoder := http.NewResponseController(w), json.NewEncoder(w)
	send := func(l line) bool { return encoder.Encode(l) == nil && out.Flush() == nil }
	if !send(line{Anchor: &r.anchor}) {
		return
	}
	if r.present != nil {
		r.add(r.present()...)
	}
	beat := time.NewTicker(r.every)
	defer beat.Stop()
	event := func(e history.Event, ok bool) bool {
		if !ok { // it lags too far behind: the stream must not end cleanly
			panic(http.ErrAbortHandler)
		}
		return send(line{Event: &e})
	}
	for {
		select {
		case <-req.Context().Done():
			return
		case e, ok := <-events:
			if !event(e, ok) {
				return
			}
		case <-beat.C:
			now := r.now()
			for range len(events) {
				if e, ok := <-events; !event(e, ok) {
					return
				}
			}
			if !send(line{Heartbeat: &now}) {
				return
			}
		}
	}
}

// events are the records of an exchange: the call itself, then each message that the
// client received or that the upstream confirmed as deleted.
func (x *exchange) events() []history.Event {
	e := history.NewSQSCall(x.call.queue, x.call.name(), x.answer.code, history.At(x.answered), history.Account(x.call.account), history.Status(x.status), history.Note(x.describe()), history.IP(x.call.client), history.By(x.call.by), history.With(history.Numbers{history.Took: (x.answered - x.arrived).Seconds()}))
	if x.call.isReceive() {
		e.Numbers[history.Messages] = float64(len(x.answer.messages))
		e.Numbers[history.Polls] = float64(x.polls)
	}
	if strings.HasPrefix(x.call.action, "ChangeMessageVisibility") && len(x.call.entries) == 1 {
		m, _ := x.proxy.handles.find(x.call.entries[0].handle)
		e.Message, e.Notice = m.id, m.notice
	}
	events := []history.Event{e}
	if x.passedOn {
		for _, hit := range x.spoiled {
			hit.At, hit.Action = x.answered, x.call.action
			events = append(events, hit)
		}
		for _, m := range x.answer.messages {
			events = append(events, history.NewSQSReceived(x.call.queue, m.id, m.notice, history.At(x.answered), history.IP(x.call.client), history.By(x.call.by)))
		}
	}
	return slices.Concat(events, x.deletions(), x.lifecycleActed())
}

// deletions are recorded even if the client did not get the answer.
func (x *exchange) deletions() []history.Event {
	if !x.call.isSQS() || !strings.HasPrefix(x.call.action, "DeleteMessage") || x.status != http.StatusOK {
		return nil
	}
	var events []history.Event
	for _, entry := range x.call.entries {
		if x.answer.refused[entry.id] {
			continue
		}
		m, known := x.proxy.handles.find(entry.handle)
		e := history.NewSQSDeleted(x.call.queue, m.id, m.notice, history.At(x.answered), history.By(x.call.by))
		if !known {
			e.Note = "the proxy has not handed out this receipt handle"
		}
		events = append(events, e)
	}
	return events
}

// describe is the note of the call's record.
func (x *exchange) describe() string {
	switch {
	case x.lost != nil:
		return x.lost.Error()
	case errors.Is(x.err, errClientGone):
		return "the client left before the answer"
	case x.err == nil && !x.passedOn:
		return "the client left while it was answered"
	case !x.call.inspected:
		return "request not inspected: larger than 1 MiB"
	}
	return x.note
}
