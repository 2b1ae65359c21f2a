package proxy

import (
	"context"
	"io"
	"sync"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

type watches struct {
	api *API

	mu      sync.Mutex
	running map[*runningWatch]bool
}

type runningWatch struct {
	io.ReadCloser
	of   *watches
	call apiCall

	client context.Context //nolint:containedctx // ends with the client's stream, not with a call

	mu    sync.Mutex
	ended bool // by a fault
}

func newWatches(a *API) *watches { return &watches{api: a, running: map[*runningWatch]bool{}} }

// open adds a watch. A fault that ends watches also ends those that begin while it lasts.
func (ws *watches) open(client context.Context, c apiCall, body io.ReadCloser) *runningWatch {
	w := &runningWatch{ReadCloser: body, of: ws, call: c, client: client}
	ws.mu.Lock()
	ws.running[w] = true
	ws.mu.Unlock()
	if f := ws.api.take(c, history.WatchEnded); f != nil {
		ws.end(w, f)
	}
	return w
}

func (ws *watches) endAll(a *fault.Active) {
	if a.On != history.OnAPI || a.Type != history.WatchEnded {
		return
	}
	ws.mu.Lock()
	running := make([]*runningWatch, 0, len(ws.running))
	for w := range ws.running {
		running = append(running, w)
	}
	ws.mu.Unlock()
	for _, w := range running {
		if f := ws.api.take(w.call, history.WatchEnded); f != nil {
			ws.end(w, f)
		}
	}
}

// end ends a watch as the server does: its answer is complete.
func (ws *watches) end(w *runningWatch, f *fault.Active) {
	ws.api.folds.hit(hitOf(f, w.call, ws.api.records.now()))
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	_ = w.ReadCloser.Close() // wakes the reader
	ws.api.faults.Done(f)
}

// present are the running watches, for a reader of the records that has just joined.
func (ws *watches) present() []history.Event {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var out []history.Event
	for w := range ws.running {
		out = append(out, history.NewAPIWatching(w.call.resource, w.call.detail(), history.At(ws.api.records.now())))
	}
	return out
}

// Read ends without an error if a fault has ended the watch. What it reads while the watch is stale waits for the end of that.
func (w *runningWatch) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.hold()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.ended {
		err = io.EOF
	}
	return n, err
}

// hold waits as long as a fault makes the watch stale, and it has a client.
func (w *runningWatch) hold() {
	f := w.of.api.take(w.call, history.Stale)
	if f == nil {
		return
	}
	w.of.api.folds.hit(hitOf(f, w.call, w.of.api.records.now()))
	select {
	case <-f.Over():
	case <-w.client.Done():
	}
	w.of.api.faults.Done(f)
}

// Close ends the watch.
func (w *runningWatch) Close() error {
	w.of.mu.Lock()
	delete(w.of.running, w)
	w.of.mu.Unlock()
	return w.ReadCloser.Close()
}
