package proxy

import (
	"fmt"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// sameCalls is how many calls that are the same are recorded one by one in a second. More
// show nothing else: a client that repeats a call without a pause is seen by the first.
const sameCalls = 5

// folds counts calls to the API server that are the same, so that a client that calls
// thousands of times a second, or renews a lease all the time, leaves a short history.
type folds struct {
	records *records

	mu    sync.Mutex
	since time.Duration // when the present second began
	seen  map[string]*fold
	hits  map[string]int // hits of faults, by the same names
	timer *time.Timer    // nil unless a call was counted
}

type fold struct {
	call history.Event // the first that was not recorded by itself
	n    int           // calls in this second
	kept int           // of them recorded
}

func newFolds(r *records) *folds {
	return &folds{records: r, seen: map[string]*fold{}, hits: map[string]int{}}
}

// same identifies calls that are the same but for their time.
func same(e history.Event) string {
	return fmt.Sprint(e.IP, e.Action, e.Resource, e.Node, e.Pod, e.Object, e.Status, e.Fault, e.Marks(), e.Owner)
}

func (fs *folds) add(e history.Event) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.turn()
	f := fs.seen[same(e)]
	if f == nil {
		f = &fold{call: e}
		fs.seen[same(e)] = f
	}
	f.n++
	limit := sameCalls
	if e.Resource == history.LeasesResource && e.Fault == "" && e.Owner == "" {
		limit = 0
	}
	if f.n <= limit {
		f.kept++
		fs.records.add(e)
		return
	}
	if fs.timer == nil {
		fs.timer = time.AfterFunc(time.Second, func() {
			fs.mu.Lock()
			defer fs.mu.Unlock()
			fs.flush()
		})
	}
}

// hit records that a fault hit a call, unless that was recorded often enough.
func (fs *folds) hit(e history.Event) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.turn()
	hit := fmt.Sprint(e.Step(), e.FaultType(), same(e))
	fs.hits[hit]++
	if fs.hits[hit] <= sameCalls {
		fs.records.add(e)
	}
}

// turn begins another second if the present one is over. The caller holds mu.
func (fs *folds) turn() {
	if fs.records.now() >= fs.since+time.Second {
		fs.flush()
	}
}

// flush records what was counted. The caller holds mu.
func (fs *folds) flush() {
	now := fs.records.now()
	for _, f := range fs.seen {
		if counted := f.n - f.kept; counted > 0 {
			e := f.call.Folded(history.Numbers{history.Calls: float64(counted), history.Within: (now - fs.since).Seconds()})
			e.At, e.Note = now, ""
			fs.records.add(e)
		}
	}
	if fs.timer != nil {
		fs.timer.Stop()
		fs.timer = nil
	}
	fs.since = now
	clear(fs.seen)
	clear(fs.hits)
}
