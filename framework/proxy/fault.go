package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Fault is a fault that the proxy injects. It ends after its time or when its last call
// is done, whichever comes first.
type Fault struct {
	Name string            `json:"name"` // as events call it
	Type history.FaultType `json:"type"`
	// Actions are the API actions that it hits; the default is all of them, or for
	// LostAnswer only deletions. Duplicate and Reorder always hit ReceiveMessage,
	// FailedEntry deletions. LostAnswer hits a receive only if it has messages.
	Actions []string      `json:"actions,omitempty"`
	Count   int           `json:"count,omitempty"` // number of calls that it hits; 0 for no limit
	For     time.Duration `json:"for,omitempty"`   // duration; 0 for no limit

	By     time.Duration `json:"by,omitempty"`     // Delay
	Status int           `json:"status,omitempty"` // ServerError
	After  time.Duration `json:"after,omitempty"`  // Duplicate
	// Code is the error of Throttle, ClientError, FailedEntry and NoCapacity; empty for the
	// type's first.
	Code history.ErrorCode `json:"code,omitempty"`
	// ToAnother delivers the copies of Duplicate only to clients with another address.
	ToAnother bool `json:"toAnother,omitempty"`
	// Silent leaves the connections that BlackHole holds open, and silent, when its time is
	// over. They are reset when all faults are cleared.
	Silent bool `json:"silent,omitempty"`

	// Capacity is what NoCapacity lacks, spot or on-demand; empty for both.
	Capacity string `json:"capacity,omitempty"`

	// API makes it a fault of the API server, which hits these calls. Nil: of the queue.
	API        *APICalls     `json:"api,omitempty"`
	RetryAfter time.Duration `json:"retryAfter,omitempty"` // Throttle of the API server
	ThenReset  bool          `json:"thenReset,omitempty"`  // BlackHole of the API server: reset at its end what waits
}

func (f Fault) validate() error {
	switch {
	case f.API == nil && !slices.Contains(history.FaultTypes(), f.Type):
		return fmt.Errorf("unknown fault type %q, allowed: %q", f.Type, history.FaultTypes())
	case f.Name == "":
		return errors.New("a fault needs a name")
	case f.Count <= 0 && f.For <= 0:
		return fmt.Errorf("fault %s needs a count or a time", f.Name)
	case f.Code != "" && !slices.Contains(f.Type.ErrorCodes(), f.Code):
		return fmt.Errorf("unknown code %q of fault %s, allowed: %q", f.Code, f.Name, f.Type.ErrorCodes())
	case f.Silent && (f.Type != history.BlackHole || f.For <= 0):
		return fmt.Errorf("fault %s cannot be silent: only a black hole with a time can", f.Name)
	case f.API != nil:
		return f.validateAPI()
	}
	return nil
}

func (f Fault) hits(c *call) bool {
	action := c.action
	switch {
	case f.Type == history.NoCapacity:
		return c.launches() && (f.Capacity == "" || f.Capacity == c.capacity())
	case f.Type == history.Duplicate || f.Type == history.Reorder:
		return action == "ReceiveMessage"
	case f.Type == history.FailedEntry:
		return deletes(action)
	case len(f.Actions) > 0:
		return slices.Contains(f.Actions, action)
	case f.Type == history.LostAnswer:
		return deletes(action)
	}
	return true
}

func deletes(action string) bool { return strings.HasPrefix(action, "DeleteMessage") }

// activeFault is a fault that has begun and not ended.
type activeFault struct {
	Fault
	left  int           // calls that it may still hit, if Count is set
	open  int           // hit calls that are not done, and copies that are not delivered
	over  chan struct{} // closed at its end; if it is silent, when the faults are cleared
	timer *time.Timer   // nil if For is 0
}

// faults are the active faults, in the order in which they began. If several would
// refuse a call, the first one does; other faults add up.
type faults struct {
	records *records
	begun   func(*activeFault) // called for each fault that begins; may be nil

	mu     sync.Mutex
	active []*activeFault
	silent []*activeFault // those that have ended and still hold connections
	copies []copied
}

// begin starts a fault.
func (fs *faults) begin(f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	a, err := fs.add(f)
	if err == nil && fs.begun != nil {
		fs.begun(a)
	}
	return err
}

// add makes a fault active.
func (fs *faults) add(f Fault) (*activeFault, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.API != nil && fs.begun == nil {
		return nil, errNoAPI
	}
	if slices.ContainsFunc(fs.active, func(a *activeFault) bool { return a.Name == f.Name }) {
		return nil, fmt.Errorf("fault %s is already active", f.Name)
	}
	a := &activeFault{Fault: f, left: f.Count, over: make(chan struct{})}
	fs.active = append(fs.active, a)
	fs.records.add(history.NewFaultBegun(a.Name, a.Type, history.At(fs.records.now())))
	if f.For > 0 {
		a.timer = time.AfterFunc(f.For, func() {
			fs.mu.Lock()
			defer fs.mu.Unlock()
			fs.end(a, "time")
		})
	}
	return a, nil
}

// clear ends every fault.
func (fs *faults) clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for len(fs.active) > 0 {
		fs.end(fs.active[0], "cleared")
	}
	for _, a := range fs.silent {
		close(a.over)
	}
	fs.silent = nil
}

// end ends a fault unless it has ended already. The caller holds mu.
func (fs *faults) end(a *activeFault, why string) {
	i := slices.Index(fs.active, a)
	if i < 0 {
		return
	}
	fs.active = slices.Delete(fs.active, i, i+1)
	fs.copies = slices.DeleteFunc(fs.copies, func(c copied) bool { return c.fault == a })
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.Silent {
		fs.silent = append(fs.silent, a)
	} else {
		close(a.over)
	}
	fs.records.add(history.NewFaultEnded(a.Name, why, history.At(fs.records.now())))
}

// take returns the first fault of these types that hits the call, and counts the hit; nil if
// there is none. The caller calls done at the end of the call.
func (fs *faults) take(c *call, types ...history.FaultType) *activeFault {
	return fs.takeIf(func(f Fault) bool { return f.API == nil && slices.Contains(types, f.Type) && f.hits(c) })
}

// takeIf is take for the faults that hits accepts.
func (fs *faults) takeIf(hits func(Fault) bool) *activeFault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, a := range fs.active {
		if (a.Count == 0 || a.left > 0) && hits(a.Fault) {
			a.left--
			a.open++
			return a
		}
	}
	return nil
}

// done ends a call that the fault hit, or the delivery of one of its copies.
func (fs *faults) done(a *activeFault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	a.open--
	if a.Count > 0 && a.left <= 0 && a.open == 0 {
		fs.end(a, "count")
	}
}

// copied is a copy of a message for a second delivery.
type copied struct {
	fault *activeFault
	json  bool   // the protocol of raw
	queue string // name
	raw   []byte // the message as in an answer
	message
	due    time.Time
	client string // address of the first delivery
}

// isFor reports whether the answer to the call may contain the copy.
func (held copied) isFor(c *call) bool {
	return held.json == c.json && held.queue == c.queue && !time.Now().Before(held.due) && (!held.fault.ToAnother || held.client != c.client)
}

// hold keeps a copy for delivery when it is due.
func (fs *faults) hold(c copied) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !slices.Contains(fs.active, c.fault) {
		return // the fault has ended in the meantime
	}
	c.fault.open++
	fs.copies = append(fs.copies, c)
}

// due removes and returns up to most copies for the answer to this call.
func (fs *faults) due(c *call, most int) []copied {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var out []copied
	fs.copies = slices.DeleteFunc(fs.copies, func(held copied) bool {
		if len(out) >= most || !held.isFor(c) {
			return false
		}
		out = append(out, held)
		return true
	})
	return out
}

// isDue reports whether a copy waits for this call.
func (fs *faults) isDue(c *call) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.ContainsFunc(fs.copies, func(held copied) bool { return held.isFor(c) })
}

// on reports whether any fault is active.
func (fs *faults) on() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.active) > 0
}

// serveBegin begins the fault in the request's body.
func (fs *faults) serveBegin(w http.ResponseWriter, r *http.Request) {
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxInspected))
	decoder.DisallowUnknownFields()
	var f Fault
	err := decoder.Decode(&f)
	if err == nil {
		err = fs.begin(f)
	}
	if err != nil {
		http.Error(w, "begin fault: "+err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveClear ends every fault.
func (fs *faults) serveClear(w http.ResponseWriter, _ *http.Request) {
	fs.clear()
	w.WriteHeader(http.StatusNoContent)
}
