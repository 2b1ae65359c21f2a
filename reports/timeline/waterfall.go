package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// Waterfall is the steps of one notice for one node: how much of the time that EC2
// gives each of them took. All of its times are of one clock, the recorder's: when the recorder saw what happened.
type Waterfall struct {
	Notice string // the step's name
	Node   string
	Steps  []Station
	// Deadline is when the instance is taken; zero if the notice has none.
	Deadline time.Duration
	// Queue is LocalStack's own share of the time until the notice was received: how
	// long a poll of the handler was open in that time without an answer.
	Queue time.Duration
}

// Station is one step of a notice.
type Station struct {
	Name string
	// At is since the history's base, After since the notice was put. Both are valid
	// only if Seen.
	At, After time.Duration
	Seen      bool
	Seq       int
}

func (d picture) waterfalls() []Waterfall {
	var out []Waterfall
	for _, put := range d.AllOf(history.NoticePut) {
		if put.Node != "" {
			out = append(out, d.waterfall(put))
		}
	}
	return out
}

func (d picture) waterfall(put history.Event) Waterfall {
	w := Waterfall{Notice: put.Step(), Node: put.Node}
	if put.Until != nil {
		w.Deadline = *put.Until
	}
	step := func(name string, e history.Event, seen bool) {
		w.Steps = append(w.Steps, Station{Name: name, At: e.At, After: e.At - put.At, Seen: seen, Seq: e.Seq})
	}
	evicted, left, owners := d.leavers(put)
	step("notice put", put, true)
	metadata := d.History.Meta.Handler.ReadsMetadata()
	if metadata {
		e, ok := d.after(put, func(e history.Event) bool {
			return e.Kind == history.MetadataRead && e.Node == put.Node && e.NoticeType() == put.NoticeType()
		})
		step("read in the metadata", e, ok)
	} else {
		e, ok := d.after(put, func(e history.Event) bool { return e.Kind == history.SQSReceived && e.Notice == put.Notice })
		step("received", e, ok)
		if ok {
			w.Queue = d.polled(put.At, e.At)
		}
	}
	e, ok := d.MarkedAfter(put.Node, put)
	step("marked", e, ok)
	step("first eviction", evicted, evicted.Seq > 0)
	if asked, ok := d.launchAsked(put); ok {
		step("replacement asked for", asked, true)
		e, ok = d.launched(put)
		step("replacement Ready", e, ok)
	}
	step("last pod gone", left, left.Seq > 0)
	ready, all := d.replaced(put, owners)
	step("replacements ready", ready, all)
	if metadata {
		return w
	}
	e, ok = d.after(put, func(e history.Event) bool { return e.Kind == history.SQSDeleted && e.Notice == put.Notice })
	step("message deleted", e, ok)
	return w
}

// launchAsked is the handler's first request for another instance after the notice.
func (d picture) launchAsked(put history.Event) (history.Event, bool) {
	e, ok := d.after(put, func(e history.Event) bool {
		return e.Kind == history.SQSCall && (e.Action == "ec2:CreateFleet" || e.Action == "ec2:RunInstances") && story.Arrived(e) >= put.At
	})
	e.At = story.Arrived(e) // it is recorded when it is answered
	return e, ok
}

// launched is when the first node of an instance that was launched after the notice was Ready.
func (d picture) launched(put history.Event) (history.Event, bool) {
	asked := map[string]bool{} // instances
	for _, e := range d.AllOf(history.InstanceLaunched) {
		asked[e.Instance] = e.At >= put.At
	}
	nodes := map[string]bool{}
	for _, e := range d.AllOf(history.InstanceJoined) {
		nodes[e.Node] = nodes[e.Node] || asked[e.Instance]
	}
	return d.after(put, func(e history.Event) bool { return e.Kind == history.NodeReady && nodes[e.Node] })
}

// polled is how long, within that time, a poll of the handler was open without an
// answer.
func (d picture) polled(from, to time.Duration) (open time.Duration) {
	var polls []history.Event
	for _, e := range d.AllOf(history.SQSCall) {
		if e.Action == "ReceiveMessage" && e.Owner != history.ProxyOwner {
			polls = append(polls, e)
		}
	}
	slices.SortFunc(polls, func(a, b history.Event) int { return cmp.Compare(story.Arrived(a), story.Arrived(b)) })
	for _, e := range polls {
		if begin, end := max(from, story.Arrived(e)), min(to, e.At); end > begin {
			open, from = open+end-begin, end
		}
	}
	return open
}

func (d picture) after(put history.Event, ok func(history.Event) bool) (history.Event, bool) {
	for _, e := range d.Events {
		if e.At >= put.At && ok(e) {
			return e, true
		}
	}
	return history.Event{}, false
}

// leavers looks at the pods that a drain for the notice must move. It finds the first
// eviction, the last deletion (none while one of them is left), and how many pods of
// each controller must be replaced.
func (d picture) leavers(put history.Event) (evicted, left history.Event, owners map[string]int) {
	owners = map[string]int{}
	stays := false
	for _, p := range d.ToDrain(put.Node, put) {
		owners[p.Controller()]++
		e, ok := p.First(func(e history.Event) bool { return e.Kind == history.PodEvicted && e.At >= put.At })
		if ok && (evicted.Seq == 0 || e.At < evicted.At) {
			evicted = e
		}
		last, gone := p.Left()
		stays = stays || !gone
		if last.At >= left.At {
			left = last
		}
	}
	if stays {
		left = history.Event{}
	}
	return evicted, left, owners
}

// replaced finds the moment at which as many new pods of each owner were ready as had
// to leave; false if none had to, or not enough were ready.
func (d picture) replaced(put history.Event, owners map[string]int) (history.Event, bool) {
	missing := 0
	for owner, n := range owners {
		if owner != "" {
			missing += n
		}
	}
	if missing == 0 {
		return history.Event{}, false
	}
	for _, e := range d.Events {
		if e.Kind != history.PodReady || e.At < put.At || owners[e.Owner] == 0 || !d.isNew(e.UID, put.At) {
			continue
		}
		owners[e.Owner]--
		missing--
		if missing == 0 {
			return e, true
		}
	}
	return history.Event{}, false
}

func (d picture) isNew(uid string, since time.Duration) bool {
	for _, p := range d.Pods {
		if p.Events[0].UID == uid {
			return p.Events[0].Kind == history.PodCreated && p.Events[0].At >= since
		}
	}
	return false
}
