package fault

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Active is a fault that has begun.
type Active struct {
	Fault
	at    Point         // the call at which it starts
	waits int           // calls until then; 0 if it has started
	undo  func()        // what is done at its end; may be nil
	left  int           // calls that it may still hit, if Count is set
	seen  int           // calls that it would hit without OneIn
	open  int           // hits that are not done
	over  chan struct{} // closed at its end; if it is silent, when all faults are cleared
	timer *time.Timer   // nil if For is 0
}

// Over is closed when the calls that the fault holds are to be let go.
func (a *Active) Over() <-chan struct{} { return a.over }

// Hit is the event that the fault has hit.
func (a *Active) Hit(with ...history.Detail) history.Event {
	return history.NewFaultHit(a.Name, a.Type, with...)
}

// Faults are the faults that have begun and not ended, in the order in which they began. If several
// would refuse a call, the first one does.
type Faults struct {
	record func(history.Event)

	mu     sync.Mutex
	active []*Active
	silent []*Active // those that have ended and still hold calls
}

// New returns no faults. Their begins and ends are recorded as events that have no time yet; hits are
// recorded by whoever makes them.
func New(record func(history.Event)) *Faults { return &Faults{record: record} }

// Begin begins a fault that consists of its hits alone.
func (fs *Faults) Begin(f Fault) (*Active, error) { return fs.BeginWith(f, nil) }

// BeginWith begins a fault for which something has to be done, and undone at its end before the end is
// recorded. Neither may call Faults.
func (fs *Faults) BeginWith(f Fault, do func() (undo func(), err error)) (*Active, error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if slices.ContainsFunc(fs.active, func(a *Active) bool { return a.Name == f.Name }) {
		return nil, fmt.Errorf("fault %s is already active", f.Name)
	}
	a := &Active{Fault: f, left: f.Count, over: make(chan struct{})}
	if at, ok := f.point(); ok {
		a.at, a.waits = at, at.N
		if f.Count == 0 && f.For == 0 {
			a.Count, a.left = 1, 1
		}
	}
	fs.record(history.NewFaultBegun(a.Name, a.Type))
	if do != nil {
		undo, err := do()
		if err != nil {
			return nil, err
		}
		a.undo = undo
	}
	fs.active = append(fs.active, a)
	if a.waits == 0 {
		fs.start(a)
	}
	return a, nil
}

// start makes a fault hit calls. The caller holds mu.
func (fs *Faults) start(a *Active) {
	if a.For > 0 {
		a.timer = time.AfterFunc(a.For.D(), func() {
			fs.mu.Lock()
			defer fs.mu.Unlock()
			fs.end(a, "time")
		})
	}
}

// Reach counts a call, and starts the faults that start at it. It is called once for each call, before Take.
func (fs *Faults) Reach(on history.FaultTarget, call, resource, node string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, a := range fs.active {
		if a.waits == 0 || a.On != on || !a.at.Is(call, resource, node) {
			continue
		}
		a.waits--
		if a.waits == 0 {
			fs.start(a)
		}
	}
}

// Clear ends every fault, and lets every call go.
func (fs *Faults) Clear() {
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
func (fs *Faults) end(a *Active, why string) {
	i := slices.Index(fs.active, a)
	if i < 0 {
		return
	}
	fs.active = slices.Delete(fs.active, i, i+1)
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.undo != nil {
		a.undo()
	}
	fs.record(history.NewFaultEnded(a.Name, why))
	if a.Silent {
		fs.silent = append(fs.silent, a)
	} else {
		close(a.over)
	}
}

// Take returns the first fault that hits, and counts the hit; nil if there is none. The caller calls
// Done at the end of the hit.
func (fs *Faults) Take(hits func(Fault) bool) *Active {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, a := range fs.active {
		if a.waits > 0 || a.Count > 0 && a.left <= 0 || !hits(a.Fault) {
			continue
		}
		a.seen++
		if a.OneIn > 0 && a.seen%a.OneIn != 1 {
			continue
		}
		a.left--
		a.open++
		return a
	}
	return nil
}

// Again opens one more hit without counting it, as for a copy that is delivered later. It reports
// false if the fault has ended.
func (fs *Faults) Again(a *Active) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !slices.Contains(fs.active, a) {
		return false
	}
	a.open++
	return true
}

// Done ends a hit. The fault ends with its last one.
func (fs *Faults) Done(a *Active) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	a.open--
	if a.Count > 0 && a.left <= 0 && a.open == 0 {
		fs.end(a, "count")
	}
}

// Has reports whether the fault has not ended.
func (fs *Faults) Has(a *Active) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.Contains(fs.active, a)
}

// Any reports whether any fault has not ended.
func (fs *Faults) Any() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.active) > 0
}
