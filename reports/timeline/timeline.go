// Package timeline turns a history into what a picture needs: lanes with spans and
// marks on one time axis, DNS answers in bins, and the waterfall of each notice.
// A timeline is small, whatever the number of queries, so a report can keep one for
// every drill of a run.
package timeline

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Timeline is one drill. All its times are since the history's base.
type Timeline struct {
	// Zero is the zero of the picture's axis: the first notice or message; the first
	// step if there was none. Origin is which of them.
	Zero   time.Duration
	Origin string
	// Base is the time of day of the history's base; zero if the history does not have it.
	Base time.Time
	// From and To are the ends of what is shown: a moment before the first notice, and
	// the time at which putting the cluster back began.
	From, To time.Duration
	Lanes    []Lane
	Streams  []AnswerRow
	// Waterfalls holds one for each notice that names a node.
	Waterfalls []Waterfall
	Sequence   Sequence
}

// Lane groups the rows of one subject.
type Lane struct {
	Name string
	Rows []Row
	// Omitted counts the rows that are not shown, see maxRows.
	Omitted int
}

// The lanes' names, in the order of the picture.
const (
	Notices   = "Notice"
	Handler   = "Handler"
	Nodes     = "Node"
	Pods      = "Pods"
	Endpoints = "kube-dns endpoints"
	// ApplicationEndpoints are those of the workload's Service.
	ApplicationEndpoints = "application endpoints"
	CoreDNS              = "CoreDNS pods"
	Answers              = "DNS answers"
)

// Row is what happened to one thing, such as a pod.
type Row struct {
	Name  string // of the thing, for people
	Note  string // what else to know about it
	Spans []Span
	Marks []Mark
}

// Span is a state that lasted.
type Span struct {
	From, To time.Duration
	State    State
	Text     string
}

// State is how a span is drawn.
type State string

// The states. Each is also a class of the report's style sheet.
const (
	Leaving     State = "leaving"     // between a notice and its deadline
	InHand      State = "in-hand"     // a message, between receipt and deletion
	Cordoned    State = "cordoned"    // a node
	NotReady    State = "not-ready"   // a node, or an endpoint that is not terminating
	Gone        State = "gone"        // a node whose instance was taken
	Pending     State = "pending"     // a pod, until it is ready
	Running     State = "running"     // a pod
	Lameduck    State = "lameduck"    // a terminating CoreDNS pod that still answers
	Grace       State = "grace"       // a terminating pod
	Waiting     State = "waiting"     // a pod that waits for a processor
	Exited      State = "exited"      // a pod whose containers exited, until it is gone from the API
	Ready       State = "ready"       // an endpoint
	Serving     State = "serving"     // an endpoint that is terminating and serving
	Terminating State = "terminating" // an endpoint that is terminating and not serving
)

// Mark is a moment.
type Mark struct {
	At   time.Duration
	Sign Sign
	Text string
	// Seq is the event's number, for the evidence that verdicts cite.
	Seq int
}

// Sign is how a mark is drawn.
type Sign string

// The signs. Each is also a class of the report's style sheet.
const (
	Put      Sign = "put"      // something was put into the queue
	Act      Sign = "act"      // somebody did something
	Came     Sign = "came"     // something came into being or became ready
	Ended    Sign = "ended"    // something ended
	Reported Sign = "reported" // somebody reported something
)

// New makes the timeline of a judged drill; nil if nothing was recorded.
func New(r verdict.Result) *Timeline {
	if r.Story == nil || len(r.Story.History.Events) == 0 {
		return nil
	}
	d := newPicture(r)
	t := &Timeline{Zero: d.zero, Origin: d.origin, Base: d.History.Meta.Base, From: d.from, To: d.to, Streams: d.streams(), Waterfalls: d.waterfalls()}
	t.Sequence = d.sequence(t.Streams)
	for _, lane := range []Lane{
		{Name: Notices, Rows: d.notices()},
		{Name: Handler, Rows: d.handler()},
		{Name: Nodes, Rows: d.nodes()},
		{Name: Pods, Rows: d.workload()},
		{Name: Endpoints, Rows: d.endpoints("")},
		{Name: ApplicationEndpoints, Rows: d.endpoints(scenarios.App)},
		{Name: CoreDNS, Rows: d.coreDNS()},
	} {
		if len(lane.Rows) == 0 {
			continue
		}
		if n := len(lane.Rows); n > maxRows {
			lane.Rows, lane.Omitted = lane.Rows[:maxRows], n-maxRows
		}
		t.Lanes = append(t.Lanes, lane)
	}
	return t
}

// maxRows keeps the picture of a large cluster readable, and its file small.
const maxRows = 24

// lead is how much of the time before the first notice is shown.
const lead = 2 * time.Second

// picture is a story prepared for drawing.
type picture struct {
	*story.Story
	result         verdict.Result
	zero, from, to time.Duration
	origin         string
	dns            map[string]bool // pods that are or were endpoints of kube-dns
}

func newPicture(r verdict.Result) picture {
	p := picture{Story: r.Story, result: r, dns: map[string]bool{}, origin: "the first step"}
	started, ok := p.Started()
	switch {
	case ok:
		p.zero, p.origin = started, p.originAt(started)
	case p.Begun <= p.Last:
		p.zero = p.Begun
	}
	p.from = max(0, p.zero-lead)
	p.to = max(min(p.End, p.Last), p.from+time.Second)
	for _, e := range p.endpointChanges("") {
		if e.Pod != "" {
			p.dns[e.Pod] = true
		}
	}
	return p
}

// originAt names what a drill began with.
func (d picture) originAt(started time.Duration) string {
	switch first, _ := d.First(func(e history.Event) bool {
		return e.At == started && (e.Kind == history.NoticePut || e.Kind == history.MessagePut)
	}); {
	case d.Scenario.Observe != nil:
		return "the observation began"
	case first.Kind == history.NoticePut:
		return "the first notice"
	case first.Kind == history.MessagePut:
		return "the first message"
	}
	return "the first step"
}

// endpointChanges are the events about the endpoints of a service; an empty one is kube-dns.
func (d picture) endpointChanges(service string) []history.Event {
	return slices.DeleteFunc(d.AllOf(history.EndpointReady, history.EndpointNotReady, history.EndpointTerminating, history.EndpointGone), func(e history.Event) bool { return e.Service() != service })
}

// span cuts a span to what is shown; ok is false if nothing of it is shown.
func (d picture) span(from, to time.Duration, state State, text string) (Span, bool) {
	from, to = max(from, d.from), min(to, d.to)
	return Span{From: from, To: to, State: state, Text: text}, to > from
}

// row adds spans and marks of one thing, cut to what is shown.
type row struct {
	picture
	Row
}

func (r *row) span(from, to time.Duration, state State, text string) {
	if s, ok := r.picture.span(from, to, state, text); ok {
		r.Spans = append(r.Spans, s)
	}
}

func (r *row) mark(e history.Event, sign Sign, text string) {
	if at := r.Happened(e); at >= r.from && at <= r.to {
		r.Marks = append(r.Marks, Mark{At: at, Sign: sign, Text: text, Seq: e.Seq})
	}
}
