package storm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// Bottleneck is what kept a handler from draining more nodes in time.
type Bottleneck string

// The closed list of bottlenecks.
const (
	Machine    Bottleneck = "this machine"           // nothing is known of the handler's own limit
	CPULimit   Bottleneck = "its CPU limit"          // of its container
	ClientRate Bottleneck = "its API client's rate"  // QPS of client-go, for instance
	Workers    Bottleneck = "nodes at a time"        // it drains no more than that
	Polls      Bottleneck = "its polls of the queue" // it receives no faster
	NotKnown   Bottleneck = "not known"
)

const (
	// window is how long calls and messages are counted: long against a second, in which a client with a rate may be idle.
	window = 10 * time.Second
	// fewestWindows are as many as it takes to call a rate even.
	fewestWindows = 4
	// even is how small the smallest count of a window may be, as a share of the largest.
	even = 0.5
	// slowAnswer is a median time of the API server's answers that makes it the bottleneck: an idle one answers in a few ms.
	slowAnswer = 100 * time.Millisecond
	// muchOf is a share of the time of a storm that is much.
	muchOf = 0.2
	// mostOf is a share of the time that is most of it.
	mostOf = 0.6
)

// Limit is the bottleneck of a storm that was too large, by the evidence of its record.
type Limit struct {
	Bottleneck Bottleneck `yaml:"bottleneck" json:"bottleneck"`
	Evidence   string     `yaml:"evidence" json:"evidence"`
}

// String is the bottleneck with its evidence.
func (l Limit) String() string { return fmt.Sprintf("%s: %s", l.Bottleneck, l.Evidence) }

// limitOf finds the bottleneck. The first cause that the record shows counts: a machine that is too busy shows nothing of the
// handler, and a client that makes no more calls makes each of its workers slow.
func limitOf(st *story.Story) Limit {
	all := courses(st)
	if len(all) == 0 {
		return Limit{NotKnown, "no notice is on record"}
	}
	s := storm{Story: st, courses: all, from: all[0].put.At, to: st.End}
	for _, c := range all {
		s.to = min(s.to, *c.put.Until)
	}
	for _, found := range []func() (Limit, bool){s.machine, s.cpuLimit, s.clientRate, s.polls, s.workers} {
		if l, ok := found(); ok {
			return l
		}
	}
	return Limit{NotKnown, "the calls to the API server, the messages that are received and the nodes at a time show no limit"}
}

// storm is a storm on record, from its first notice to the first deadline.
type storm struct {
	*story.Story
	courses  []course
	from, to time.Duration
}

func (s storm) lasted() time.Duration { return s.to - s.from }

func (s storm) calls() []history.Event {
	return s.APICalls(func(e history.Event) bool { return e.At >= s.from && e.At < s.to })
}

// machine reports whether this machine was the limit: its host, its processors for the handler, or its API server.
func (s storm) machine() (Limit, bool) {
	if share, stolen := s.Stolen(s.from, s.to); share > muchOf {
		return Limit{Machine, stolen}, true
	}
	var took []time.Duration
	for _, e := range s.calls() {
		if e.Kind == history.APICall {
			took = append(took, e.Numbers.Duration(history.Took))
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		if median := took[len(took)/2]; median >= slowAnswer {
			return Limit{Machine, fmt.Sprintf("the API server took %s for an answer (median of %d)", history.Seconds(median), len(took))}, true
		}
	}
	if waited := s.waits(history.Waited) - s.waits(history.Throttled); waited.Seconds() > muchOf*s.lasted().Seconds() {
		return Limit{Machine, fmt.Sprintf("the handler waited for a processor for %s of %s", history.Seconds(waited), history.Seconds(s.lasted()))}, true
	}
	return Limit{}, false
}

// waits is the sum of a figure of the handler's waits.
func (s storm) waits(figure history.Number) (sum time.Duration) {
	for _, p := range s.Pods {
		if !p.OfHandler(s.History.Meta.Handler) {
			continue
		}
		for _, e := range s.AllOf(history.ProcessorWaited) {
			if e.Pod == p.Name() && e.At >= s.from && e.At < s.to {
				sum += e.Numbers.Duration(figure)
			}
		}
	}
	return sum
}

func (s storm) cpuLimit() (Limit, bool) {
	held := s.waits(history.Throttled)
	return Limit{CPULimit, fmt.Sprintf("it kept the handler from running for %s of %s", history.Seconds(held), history.Seconds(s.lasted()))}, held.Seconds() > muchOf*s.lasted().Seconds()
}

// clientRate reports whether the handler called the API server evenly, as a client does that waits for its own rate. What the
// API server is asked to wait for, or answers slowly, is no such client.
func (s storm) clientRate() (Limit, bool) {
	calls := s.calls()
	rates := s.perSecond(calls)
	if !isEven(rates) || s.APIUnrecorded() != "" {
		return Limit{}, false
	}
	total := 0.0
	for _, e := range calls {
		total += story.Weight(e)
	}
	drained := stage(s.courses, func(c course) *history.Event { return c.drained }).Nodes
	return Limit{ClientRate, fmt.Sprintf("%.1f to %.1f calls a second in each %.0f s, %.0f for each node that it drained", slices.Min(rates), slices.Max(rates), window.Seconds(), total/math.Max(1, float64(drained)))}, true
}

// polls reports whether messages were received evenly, each for the first time, and most of the storm long.
func (s storm) polls() (Limit, bool) {
	var received []history.Event
	for _, c := range s.courses {
		if c.received != nil {
			received = append(received, *c.received)
		}
	}
	rates := s.perSecond(received)
	if !isEven(rates) {
		return Limit{}, false
	}
	return Limit{Polls, fmt.Sprintf("%.1f to %.1f messages a second in each %.0f s", slices.Min(rates), slices.Max(rates), window.Seconds())}, true
}

// perSecond are the rates in the windows of a storm, without the first and the last, in which it begins and may end.
func (s storm) perSecond(events []history.Event) (rates []float64) {
	rates = make([]float64, int(s.lasted()/window))
	for _, e := range events {
		if i := int((e.At - s.from) / window); i < len(rates) {
			rates[i] += story.Weight(e) / window.Seconds()
		}
	}
	if len(rates) < 2 {
		return nil
	}
	return rates[1 : len(rates)-1]
}

func isEven(rates []float64) bool {
	return len(rates) >= fewestWindows && slices.Min(rates) > 0 && slices.Min(rates) >= even*slices.Max(rates)
}

// workers reports whether the handler had the same number of nodes in work for most of the time, its largest: those that are
// marked and not drained. One that marks most nodes first has no such limit.
func (s storm) workers() (Limit, bool) {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	for _, c := range s.courses {
		if c.marked != nil {
			changes = append(changes, change{c.marked.At, 1})
		}
		if c.marked != nil && c.drained != nil {
			changes = append(changes, change{max(c.drained.At, c.marked.At), -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	lasted, now, largest := map[int]time.Duration{}, 0, 0
	for i, c := range changes {
		if i > 0 {
			lasted[now] += c.at - changes[i-1].at
		}
		now += c.by
		largest = max(largest, now)
	}
	total := time.Duration(0)
	for _, d := range lasted {
		total += d
	}
	many := 2*largest <= len(s.courses) && lasted[largest].Seconds() > mostOf*total.Seconds()
	return Limit{Workers, fmt.Sprintf("%s at a time for %s of %s", history.Count(largest, "node"), history.Seconds(lasted[largest]), history.Seconds(total))}, many
}
