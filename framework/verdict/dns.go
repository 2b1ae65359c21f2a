package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Measurement is what the prober measured at a service from the second before the first notice
// until the cluster was being put back.
type Measurement struct {
	Fresh   Stream // a port for each query
	Fixed   Stream // a few ports
	Control Stream // a pod that stays, queried directly
	Echo    Stream // the responder in the prober's own process
}

// Stream is what became of the queries of one target and mode.
type Stream struct {
	Asked   int // without those that never left
	Lost    int
	Windows []history.Window
	// P50 and P99 are latencies of the answered queries, from the intended send
	// time; 0 if none was answered.
	P50 time.Duration
	P99 time.Duration

	queries []history.Query
}

// Longest is the longest window in which queries were lost; false if there is none.
func (s Stream) Longest() (history.Window, bool) {
	if len(s.Windows) == 0 {
		return history.Window{}, false
	}
	return slices.MaxFunc(s.Windows, func(a, b history.Window) int { return cmp.Compare(a.Length(), b.Length()) }), true
}

// measure returns nil if the scenario has no probe.
func (j judge) measure() *Measurement {
	if j.Scenario.Probe == nil {
		return nil
	}
	from, _ := j.Started()
	from -= baselineTime
	// By UDP or TCP: a scenario queries the service by one of them.
	few := slices.DeleteFunc(history.Modes(), history.Mode.PortEach)
	each := slices.DeleteFunc(history.Modes(), func(m history.Mode) bool { return !m.PortEach() })
	return &Measurement{
		Fresh:   newStream(history.QueriesWithin(j.History.Queries, from, j.End, j.target.service, each...)),
		Fixed:   newStream(history.QueriesWithin(j.History.Queries, from, j.End, j.target.service, few...)),
		Control: newStream(history.QueriesWithin(j.History.Queries, from, j.End, j.target.control, history.Modes()...)),
		Echo:    newStream(history.QueriesWithin(j.History.Queries, from, j.End, history.Echo, history.Fixed)),
	}
}

func newStream(queries []history.Query) Stream {
	s := Stream{Asked: len(queries), Windows: history.Windows(queries, history.Quiet), queries: queries}
	var latencies []time.Duration
	for _, q := range queries {
		if q.Outcome.Lost() {
			s.Lost++
			continue
		}
		latencies = append(latencies, q.Done-q.Intended)
	}
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		s.P50, s.P99 = latencies[(n-1)*50/100], latencies[(n-1)*99/100]
	}
	return s
}

// modes are the service's streams that a check's mode selects.
func (m Measurement) modes(mode string) map[history.Mode]Stream {
	all := map[history.Mode]Stream{history.Fresh: m.Fresh, history.Fixed: m.Fixed}
	for of := range all {
		if mode != "all" && mode != string(of) {
			delete(all, of)
		}
	}
	return all
}

func (m Measurement) numbers() map[string]float64 {
	out := map[string]float64{"asked_control": float64(m.Control.Asked), "lost_control": float64(m.Control.Lost)}
	for mode, s := range m.modes("all") {
		longest, _ := s.Longest()
		out[fmt.Sprintf("asked_%s", mode)] = float64(s.Asked)
		out[fmt.Sprintf("lost_%s", mode)] = float64(s.Lost)
		out[fmt.Sprintf("windows_%s", mode)] = float64(len(s.Windows))
		out[fmt.Sprintf("window_%s_max_ms", mode)] = milliseconds(longest.Length())
		out[fmt.Sprintf("latency_%s_p50_ms", mode)] = milliseconds(s.P50)
		out[fmt.Sprintf("latency_%s_p99_ms", mode)] = milliseconds(s.P99)
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

var checkDNSLost = check{
	Kind: Kind{
		ID: DNSLost, Title: "dns lost (%s)",
		Requires: "At most this many queries are lost at the DNS service.",
		Fix:      "set lameduck longer than kube-proxy and the readiness probe need to take the pod out of the Service, and the grace period longer than that",
		Look:     Look{Lane: LaneDNS, Text: "the lane DNS answers: where the window opens, and what the endpoint and CoreDNS lanes show just before"},
	},
	judge: by(judge.dnsLost),
}

func (j judge) dnsLost(v Verdict, c scenarios.DNSLost) Verdict {
	v = v.wants(fmt.Sprintf("at most %d %s lost at the service", c.Max, j.target.queries), c.Mode)
	v, ok := j.judgeable(v, c.Mode)
	if !ok {
		return v
	}
	streams, except := j.counted(&v, c.Mode, c.ExceptConntrack)
	lost, asked := lostOf(streams), 0
	for _, s := range streams {
		asked += s.Asked
	}
	steady := lostOf(j.steady(streams))
	holes := j.hiding(streams, c.ExceptConntrack)
	_, hidden := j.hidden(holes, streams)
	switch {
	case steady > c.Max:
		return v.fail(fmt.Sprintf("%d of %d lost%s; %s", lost, asked, except, j.windowsOf(streams)), j.around(streams)...)
	case lost > c.Max:
		return v.noise(fmt.Sprintf("%d of %d lost%s, only %d of them surely by the cluster: this machine was too busy meanwhile; %s", lost, asked, except, steady, j.windowsOf(streams)), j.around(streams)...)
	case lost+hidden > c.Max:
		return v.noise(fmt.Sprintf("%d of %d lost%s, and up to %d more might have been: %s", lost, asked, except, hidden, holes[0]))
	}
	return v.pass(fmt.Sprintf("%d of %d lost%s", lost, asked, except))
}

// without is the measurement without the queries that were lost to these causes.
func (j judge) without(causes ...Cause) *Measurement {
	rest := func(s Stream) Stream {
		return newStream(slices.DeleteFunc(slices.Clone(s.queries), func(q history.Query) bool {
			cause := j.lossCause(q)
			return slices.Contains(causes, cause)
		}))
	}
	counted := *j.measured
	counted.Fresh, counted.Fixed = rest(counted.Fresh), rest(counted.Fixed)
	return &counted
}

// counted is what a check counts of the streams of its modes: without the queries that
// this machine lost, with proof, and on request without those that connection tracking
// lost. except names both, with their numbers.
func (j judge) counted(v *Verdict, mode string, conntrack bool) (streams map[history.Mode]Stream, except string) {
	streams = j.measured.modes(mode)
	var left []Cause
	leave := func(number, text string, causes ...Cause) {
		was := lostOf(streams)
		left = append(left, causes...)
		v.Counted = j.without(left...)
		streams = v.Counted.modes(mode)
		if n := was - lostOf(streams); n > 0 || number == "lost_conntrack" {
			v.Numbers[number] = float64(n)
			except += fmt.Sprintf(", without %d that %s", n, text)
		}
	}
	if len(j.starving()) > 0 && lostOf(streams) > 0 {
		leave("lost_no_processor", "were lost at pods that had no processor", NoProcessor)
	}
	if conntrack {
		leave("lost_conntrack", "connection tracking itself lost", EntryRemoved, InsertFailed)
	}
	return streams, except
}

func lostOf(streams map[history.Mode]Stream) (lost int) {
	for _, s := range streams {
		lost += s.Lost
	}
	return lost
}

// steady are the streams without the losses that may be this machine's: those during which
// the control or the echo was lost or late as well, those at a pod that had no processor, and
// those that kube-proxy would have prevented if it had had one. A pod that had ended answers
// nobody, however busy this machine is, and the entry of one that serves is never to be removed.
func (j judge) steady(streams map[history.Mode]Stream) map[history.Mode]Stream {
	var t traffic
	if lostOf(streams) > 0 {
		t = j.traffic()
	}
	all, unproven := j.lagsExcept(controlLag, func(history.Query) bool { return false }), t.unproven()
	out := map[history.Mode]Stream{}
	for _, mode := range inTurn() {
		s, ok := streams[mode]
		if !ok {
			continue
		}
		if out[mode] = s; s.Lost == 0 {
			continue
		}
		out[mode] = newStream(slices.DeleteFunc(slices.Clone(s.queries), func(q history.Query) bool {
			if !q.Outcome.Lost() {
				return false
			}
			lags, cause := all, j.lossCause(q)
			if cause == EntryRemoved && t.removedWhileServing(q) {
				return false
			}
			if definite(cause) {
				lags = t.lags
			}
			return lags.near(j.target.machine(q.Node), q.Intended) || t.lateRules(q) || unproven(q)
		}))
	}
	return out
}

// definite reports whether a cause is what the cluster did, whoever was busy.
func definite(c Cause) bool {
	return slices.Contains([]Cause{NodeGone, OldEntry, BackendEnded, NoEndpoint, Refused}, c)
}

// undisturbed is how much of a window is left without the time around each query
// that the control lost, or answered by shownLag late: what shows an outage is
// what was lost while the control answered, even if slowly.
func (j judge) undisturbed(w history.Window) time.Duration {
	left, from := w.Length(), w.From
	for _, lag := range j.lags(shownLag).all() {
		to := min(lag+lagReach, w.To)
		from = max(from, lag-lagReach)
		if from < to {
			left -= to - from
			from = to
		}
	}
	return left
}

// inTurn are the modes of the service's streams, in the order in which they are
// reported.
func inTurn() []history.Mode { return []history.Mode{history.Fresh, history.Fixed} }

// longest is the longest window of the streams, and whether any is open.
func longest(streams map[history.Mode]Stream) (w history.Window, open bool) {
	for _, mode := range inTurn() {
		for _, other := range streams[mode].Windows {
			open = open || other.Open
			if other.Length() >= w.Length() {
				w = other
			}
		}
	}
	return w, open
}

var checkDNSWindow = check{
	Kind: Kind{
		ID: "dnsWindow", Title: "dns window (%s)",
		Requires: "The longest window of lost queries at the DNS service is within these bounds.",
		Fix:      "compare the window with lameduck and with the readiness probe's period times its threshold in the report's timeline; the longer of them is what to change",
		Look:     Look{Lane: LaneDNS, Text: "the lane DNS answers: where the window opens, and what the endpoint and CoreDNS lanes show just before"},
	},
	judge: by(judge.dnsWindow),
}

func (j judge) dnsWindow(v Verdict, c scenarios.DNSWindow) Verdict {
	var bounds []string
	if c.Min > 0 {
		bounds = append(bounds, "at least "+c.Min.D().String())
	}
	if c.Max > 0 {
		bounds = append(bounds, "at most "+c.Max.D().String())
	}
	v = v.wants("the longest window of lost "+j.target.queries+" "+strings.Join(bounds, " and ")+" long", c.Mode)
	if len(bounds) == 0 {
		return v.unknown("the check gives no bound")
	}
	v, ok := j.judgeable(v, c.Mode)
	if !ok {
		return v
	}
	streams, except := j.counted(&v, c.Mode, false)
	all, open := longest(streams)
	surely := j.unbroken(j.steady(streams))
	holes := j.hiding(streams, false)
	hidden, _ := j.hidden(holes, streams)
	evidence := j.around(streams)
	got := j.windowsOf(streams) + except
	switch {
	case c.Max > 0 && surely > c.Max.D():
		return v.fail(got, evidence...)
	case hidden > 0 && (c.Max > 0 && all.Length()+hidden > c.Max.D() || j.unbroken(streams) < c.Min.D() && all.Length()+hidden >= c.Min.D()):
		return v.noise(fmt.Sprintf("%s, and %s", got, holes[0]), evidence...)
	case c.Max > 0 && all.Length() > c.Max.D(), j.undisturbed(all) < c.Min.D() && all.Length() >= c.Min.D():
		return v.noise("the control was lost or late at the same time: "+got, evidence...)
	case c.Max > 0 && open:
		return v.unknown("a window was still open when the recording ended: "+got, evidence...)
	case all.Length() < c.Min.D() && open:
		return v.unknown("a window was still open when the recording ended: "+got, evidence...)
	case all.Length() < c.Min.D():
		return v.fail(got, evidence...)
	}
	return v.pass(got, evidence...)
}

// windowsOf describes each mode's longest window.
func (j judge) windowsOf(streams map[history.Mode]Stream) string {
	var parts []string
	for _, mode := range inTurn() {
		s, ok := streams[mode]
		if !ok || j.target.rate(mode) == 0 {
			continue
		}
		w, ok := s.Longest()
		if !ok {
			parts = append(parts, fmt.Sprintf("%s: no window", mode))
			continue
		}
		more := ""
		if n := len(s.Windows); n > 1 {
			more = fmt.Sprintf(", the longest of %d", n)
		}
		if w.Open {
			more += ", still open"
		}
		parts = append(parts, fmt.Sprintf("%s: %s from +%s (%d of %d lost%s)", mode, history.Seconds(w.Length()), history.Seconds(w.From), w.Lost, w.Asked, more))
	}
	return strings.Join(parts, "; ")
}

// around are the events that belong to the windows: what happened to pods and
// endpoints of DNS shortly before and within.
func (j judge) around(streams map[history.Mode]Stream) []history.Event {
	var windows []history.Window
	for _, mode := range inTurn() {
		windows = append(windows, streams[mode].Windows...)
	}
	return capped(j.All(func(e history.Event) bool {
		if !j.ofTarget(e) {
			return false
		}
		switch e.Kind {
		case history.Reclaimed, history.EndpointReady, history.EndpointNotReady, history.EndpointTerminating, history.EndpointGone,
			history.PodTerminating, history.PodExited, history.PodDeleted:
			return slices.ContainsFunc(windows, func(w history.Window) bool {
				return e.At >= w.From-history.Quiet && e.At <= w.To
			})
		}
		return false
	}))
}

var checkEndpointLeft = check{
	Kind: Kind{
		ID: "endpointLeft", Title: "endpoint of %s left",
		Requires: "The kube-dns endpoint of the node's CoreDNS pod stays ready for at least this long after the instance was taken.",
		Fix:      "something noticed the loss before the node controller did: look for who deleted the pod or changed the EndpointSlice",
		Look:     Look{Lane: LaneEndpoints, Text: "the lane kube-dns endpoints: when the address left, and who noticed"},
	},
	judge: by(judge.endpointLeft),
}

func (j judge) endpointLeft(v Verdict, c scenarios.EndpointLeft) Verdict {
	v = v.wants(fmt.Sprintf("the node's CoreDNS endpoint ready for at least %s after its instance was taken", c.AtLeast.D()), c.Node)
	node, why := j.Node(c.Node)
	if why != "" {
		return v.unknown(why)
	}
	taken, ok := j.Reclaimed(node)
	if !ok {
		return v.unknown(fmt.Sprintf("the instance of %s was never taken", node))
	}
	pods := map[string]bool{}
	for _, p := range j.Pods {
		if _, ok := p.Arrived(node); ok {
			pods[p.Name()] = true
		}
	}
	var before, after *history.Event
	for _, e := range j.Events {
		if !strings.HasPrefix(string(e.Kind), "endpoint.") || e.Key != "" || !pods[e.Pod] {
			continue
		}
		switch {
		case e.At < taken.At:
			before = &e
		case after == nil && e.Kind != history.EndpointReady:
			after = &e
		}
	}
	switch {
	case before == nil:
		return v.unknown("no CoreDNS endpoint was seen on "+node, taken)
	case before.Kind != history.EndpointReady:
		return v.fail("it was not ready any more when the instance was taken", *before, taken)
	case after == nil && j.Unseen(taken.At+c.AtLeast.D()) != "":
		return v.unknown("still ready: "+j.Unseen(taken.At+c.AtLeast.D()), *before, taken)
	case after == nil:
		return v.pass("still ready when the recording ended", *before, taken)
	}
	left := after.At - taken.At
	v.Numbers = map[string]float64{"endpoint_seconds": left.Seconds()}
	if left < c.AtLeast.D() {
		return v.fail(fmt.Sprintf("%s after %s", after.Kind, history.Seconds(left)), taken, *after)
	}
	return v.pass(fmt.Sprintf("%s after %s", after.Kind, history.Seconds(left)), taken, *after)
}
