package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Waterfall is the way of one notice for one node: what it took of the time
// that EC2 gives.
type Waterfall struct {
	Notice string // the step's name
	Node   string
	Steps  []Step
	// Deadline is when the instance goes; zero where the notice has none.
	Deadline time.Duration
	// Queue is LocalStack's own share of the time until the notice was received: for
	// how long of it a poll of the handler's was open and got no answer.
	Queue time.Duration
}

// Step is a station of the waterfall.
type Step struct {
	Name string
	// At is since the history's base, After since the notice was put. Both count
	// only where Seen.
	At, After time.Duration
	Seen      bool
	Seq       int
}

func (d drill) waterfalls() []Waterfall {
	var out []Waterfall
	for _, put := range d.all(history.NoticePut) {
		if put.Node != "" {
			out = append(out, d.waterfall(put))
		}
	}
	return out
}

func (d drill) waterfall(put history.Event) Waterfall {
	w := Waterfall{Notice: put.Key, Node: put.Node}
	if put.Until != nil {
		w.Deadline = *put.Until
	}
	step := func(name string, e history.Event, seen bool) {
		w.Steps = append(w.Steps, Step{Name: name, At: e.At, After: e.At - put.At, Seen: seen, Seq: e.Seq})
	}
	evicted, left, owners := d.leavers(put)
	step("notice put", put, true)
	e, ok := d.after(put, func(e history.Event) bool { return e.Kind == history.SQSReceived && e.Notice == put.Notice })
	step("received", e, ok)
	if ok {
		w.Queue = d.polled(put.At, e.At)
	}
	e, ok = d.after(put, func(e history.Event) bool { return e.Node == put.Node && d.marks(e) })
	step("cordoned", e, ok)
	step("first eviction", evicted, evicted.Seq > 0)
	step("last pod gone", left, left.Seq > 0)
	ready, all := d.replaced(put, owners)
	step("replacements ready", ready, all)
	e, ok = d.after(put, func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Notice == put.Notice })
	step("message deleted", e, ok)
	return w
}

// polled is for how long of that time the handler had asked the queue and had no
// answer.
func (d drill) polled(from, to time.Duration) (open time.Duration) {
	var polls []history.Event
	for _, e := range d.all(history.SQSCall) {
		if e.Action == "ReceiveMessage" && e.Owner != history.ProxyOwner {
			polls = append(polls, e)
		}
	}
	began := func(e history.Event) time.Duration {
		return e.At - time.Duration(e.Numbers[history.Took]*float64(time.Second))
	}
	slices.SortFunc(polls, func(a, b history.Event) int { return cmp.Compare(began(a), began(b)) })
	for _, e := range polls {
		if begin, end := max(from, began(e)), min(to, e.At); end > begin {
			open, from = open+end-begin, end
		}
	}
	return open
}

func (d drill) after(put history.Event, ok func(history.Event) bool) (history.Event, bool) {
	for _, e := range d.events {
		if e.At >= put.At && ok(e) {
			return e, true
		}
	}
	return history.Event{}, false
}

// marks is true for the event by which the handler marks a node.
func (d drill) marks(e history.Event) bool {
	taint := d.history.Meta.Handler.Taint
	return e.Kind == history.NodeCordoned || e.Kind == history.NodeTainted && taint != "" && e.Key == taint
}

// leavers tells of the pods that a drain of the notice's node must move: the
// first eviction, the last deletion (none while any of them is left), and how
// many of each owner have to be replaced.
func (d drill) leavers(put history.Event) (evicted, left history.Event, owners map[string]int) {
	owners = map[string]int{}
	stays := false
	for _, p := range d.pods {
		deleted, gone := p.first(history.PodDeleted)
		there := p.node() == put.Node && p.since() <= put.At && (!gone || deleted.At > put.At)
		if !there || !history.Evictable(p) {
			continue
		}
		owners[p.owner()]++
		if e, ok := p.first(history.PodEvicted); ok && e.At >= put.At && (evicted.Seq == 0 || e.At < evicted.At) {
			evicted = e
		}
		if stays = stays || !gone; deleted.At >= left.At {
			left = deleted
		}
	}
	if stays {
		left = history.Event{}
	}
	return evicted, left, owners
}

// replaced finds the moment at which as many new pods of each owner were ready
// as had to leave; false where there were none, or not yet enough.
func (d drill) replaced(put history.Event, owners map[string]int) (history.Event, bool) {
	missing := 0
	for owner, n := range owners {
		if owner != "" {
			missing += n
		}
	}
	if missing == 0 {
		return history.Event{}, false
	}
	for _, e := range d.events {
		if e.Kind != history.PodReady || e.At < put.At || owners[e.Owner] == 0 || !d.isNew(e.UID, put.At) {
			continue
		}
		owners[e.Owner]--
		if missing--; missing == 0 {
			return e, true
		}
	}
	return history.Event{}, false
}

func (d drill) isNew(uid string, since time.Duration) bool {
	for _, p := range d.pods {
		if p[0].UID == uid {
			return p[0].Kind == history.PodCreated && p[0].At >= since
		}
	}
	return false
}
