package observe

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// heard is a record that is closed when nothing comes of it for silentFor.
type heard struct {
	io.ReadCloser
	timer  *time.Timer
	silent atomic.Bool
}

func newHeard(body io.ReadCloser) *heard {
	h := &heard{ReadCloser: body}
	h.timer = time.AfterFunc(silentFor, func() {
		h.silent.Store(true)
		_ = body.Close()
	})
	return h
}

// Read reads what comes.
func (h *heard) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b)
	if n > 0 && !h.silent.Load() {
		h.timer.Reset(silentFor)
	}
	return n, err
}

// Close ends the record.
func (h *heard) Close() error {
	h.timer.Stop()
	return h.ReadCloser.Close()
}

// why names the silence as the cause of an error that it led to.
func (h *heard) why(err error) error {
	if err != nil && h.silent.Load() {
		return fmt.Errorf("nothing came of it for %s, its node or the connection to it is gone: %w", silentFor, err)
	}
	return err
}
