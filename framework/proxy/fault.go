package proxy

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// hits reports whether a fault on the queue or EC2 hits the call. LostAnswer hits a receive only if it
// has messages.
func hits(f fault.Fault, c *call) bool {
	switch {
	case f.On == history.OnEC2:
		return c.launches() && (f.Capacity == "" || f.Capacity == c.capacity())
	case f.On != history.OnQueue:
		return false
	case f.Type == history.Duplicate || f.Type == history.Reorder:
		return c.action == "ReceiveMessage"
	case f.Type == history.FailedEntry:
		return deletes(c.action)
	case len(f.Actions) > 0:
		return slices.Contains(f.Actions, c.action)
	case f.Type == history.LostAnswer:
		return deletes(c.action)
	}
	return true
}

func deletes(action string) bool { return strings.HasPrefix(action, "DeleteMessage") }

// take returns the first fault of these types that hits the call; nil if there is none. The hit is
// done at the end of the call.
func (x *exchange) take(types ...history.FaultType) *fault.Active {
	f := x.proxy.faults.Take(func(f fault.Fault) bool { return slices.Contains(types, f.Type) && hits(f, &x.call) })
	if f != nil {
		x.hits = append(x.hits, f)
	}
	return f
}

// hitBy is take, and records the hit.
func (x *exchange) hitBy(types ...history.FaultType) *fault.Active {
	f := x.take(types...)
	if f != nil {
		x.proxy.records.add(f.Hit(history.At(x.proxy.records.now()), history.Action(x.call.name())))
	}
	return f
}

// copied is a copy of a message for a second delivery.
type copied struct {
	fault *fault.Active
	json  bool   // the protocol of raw
	queue string // name
	raw   []byte // the message as in an answer
	message
	due    time.Time
	client string // address of the first delivery
}

// copies wait for their delivery. Those of a fault that has ended are dropped.
type copies struct {
	faults *fault.Faults

	mu  sync.Mutex
	all []copied
}

// isFor reports whether the answer to the call may contain the copy.
func (held copied) isFor(c *call) bool {
	return held.json == c.json && held.queue == c.queue && !time.Now().Before(held.due) && (!held.fault.ToAnother || held.client != c.client)
}

// hold keeps a copy for delivery when it is due.
func (cs *copies) hold(c copied) {
	if !cs.faults.Again(c.fault) {
		return // the fault has ended in the meantime
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.all = append(cs.all, c)
}

// due removes and returns up to most copies for the answer to this call.
func (cs *copies) due(c *call, most int) []copied {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var out []copied
	cs.all = slices.DeleteFunc(cs.all, func(held copied) bool {
		switch {
		case !cs.faults.Has(held.fault):
			return true
		case len(out) >= most || !held.isFor(c):
			return false
		}
		out = append(out, held)
		return true
	})
	return out
}

// isDue reports whether a copy waits for this call.
func (cs *copies) isDue(c *call) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.ContainsFunc(cs.all, func(held copied) bool { return held.isFor(c) && cs.faults.Has(held.fault) })
}
