package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/scenarios"
)

// numbersOf are the figures of a measurement.
func numbersOf(m loss.Measurement) map[string]float64 {
	out := map[string]float64{"asked_control": float64(m.Control.Asked), "lost_control": float64(m.Control.Lost)}
	for mode, s := range m.Streams("all") {
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
	judge: by(dnsLost),
}

func dnsLost(j judge, v Verdict, c scenarios.DNSLost) Verdict {
	v = v.wants(fmt.Sprintf("at most %d %s lost at the service", c.Max, j.target.Queries), c.Mode)
	v, ok := j.judgeable(v, c.Mode)
	if !ok {
		return v
	}
	streams, except := j.counted(&v, c.Mode, c.ExceptConntrack)
	lost, asked := streams.Lost(), 0
	for _, s := range streams {
		asked += s.Asked
	}
	why := j.attribution()
	steady := why.Steady(streams).Lost()
	holes := why.Hiding(streams, c.ExceptConntrack)
	_, hidden := why.Hidden(holes, streams)
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

// counted is what a check counts of the streams of its modes: without the queries that
// this machine lost, with proof, and on request without those that connection tracking
// lost. except names both, with their numbers.
func (j judge) counted(v *Verdict, mode string, conntrack bool) (streams loss.Streams, except string) {
	streams = j.measured.Streams(mode)
	why := j.attribution()
	var left []loss.Cause
	leave := func(number, text string, causes ...loss.Cause) {
		was := streams.Lost()
		left = append(left, causes...)
		v.Counted = why.Without(left...)
		streams = v.Counted.Streams(mode)
		if n := was - streams.Lost(); n > 0 || number == "lost_conntrack" {
			v.Numbers[number] = float64(n)
			except += fmt.Sprintf(", without %d that %s", n, text)
		}
	}
	if why.Starved() && streams.Lost() > 0 {
		leave("lost_no_processor", "were lost at pods that had no processor", loss.NoProcessor)
	}
	if conntrack {
		leave("lost_conntrack", "connection tracking itself lost", loss.EntryRemoved, loss.InsertFailed)
	}
	return streams, except
}

var checkDNSWindow = check{
	Kind: Kind{
		ID: "dnsWindow", Title: "dns window (%s)",
		Requires: "The longest window of lost queries at the DNS service is within these bounds.",
		Fix:      "compare the window with lameduck and with the readiness probe's period times its threshold in the report's timeline; the longer of them is what to change",
		Look:     Look{Lane: LaneDNS, Text: "the lane DNS answers: where the window opens, and what the endpoint and CoreDNS lanes show just before"},
	},
	judge: by(dnsWindow),
}

func dnsWindow(j judge, v Verdict, c scenarios.DNSWindow) Verdict {
	var bounds []string
	if c.Min > 0 {
		bounds = append(bounds, "at least "+c.Min.D().String())
	}
	if c.Max > 0 {
		bounds = append(bounds, "at most "+c.Max.D().String())
	}
	v = v.wants("the longest window of lost "+j.target.Queries+" "+strings.Join(bounds, " and ")+" long", c.Mode)
	if len(bounds) == 0 {
		return v.unknown("the check gives no bound")
	}
	v, ok := j.judgeable(v, c.Mode)
	if !ok {
		return v
	}
	streams, except := j.counted(&v, c.Mode, false)
	why := j.attribution()
	all, open := streams.Longest()
	surely := why.Unbroken(why.Steady(streams))
	holes := why.Hiding(streams, false)
	hidden, _ := why.Hidden(holes, streams)
	evidence := j.around(streams)
	got := j.windowsOf(streams) + except
	switch {
	case c.Max > 0 && surely > c.Max.D():
		return v.fail(got, evidence...)
	case hidden > 0 && (c.Max > 0 && all.Length()+hidden > c.Max.D() || why.Unbroken(streams) < c.Min.D() && all.Length()+hidden >= c.Min.D()):
		return v.noise(fmt.Sprintf("%s, and %s", got, holes[0]), evidence...)
	case c.Max > 0 && all.Length() > c.Max.D(), why.Undisturbed(all) < c.Min.D() && all.Length() >= c.Min.D():
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
func (j judge) windowsOf(streams loss.Streams) string {
	var parts []string
	for _, mode := range loss.Modes() {
		s, ok := streams[mode]
		if !ok || j.target.Rate(mode) == 0 {
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
func (j judge) around(streams loss.Streams) []history.Event {
	var windows []history.Window
	for _, mode := range loss.Modes() {
		windows = append(windows, streams[mode].Windows...)
	}
	return capped(j.All(func(e history.Event) bool {
		if !j.target.Concerns(e) {
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
	judge: by(endpointLeft),
}

func endpointLeft(j judge, v Verdict, c scenarios.EndpointLeft) Verdict {
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
		if !strings.HasPrefix(string(e.Kind), "endpoint.") || e.Service() != "" || !pods[e.Pod] {
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
