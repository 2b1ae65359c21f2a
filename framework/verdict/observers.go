package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
)

// leavesWith is how long before or after the end of a prober's record its node may be seen to
// leave: a node is marked before its last pod ends, and the node controller notices a lost one
// after 40 to 50 s (node-monitor-grace-period).
const leavesWith = time.Minute

// observer is what is on record of a prober in a cluster that is not spotdrill's own.
type observer struct {
	name   string // as history.TargetFound has it
	target string // what it queries
	pod    string
	begun  time.Duration // its first record began
	ended  []history.Event
	broke  []history.Event
	starts int
	asked  int // on record, without those to itself
	unsent int
	sent   []time.Duration // queries to the service, ascending
}

// node is the node that the prober ran on.
func (o *observer) node() string {
	node, _, _ := strings.Cut(o.name, "#")
	return node
}

// observersOf reads what each prober recorded, in order of their names.
func (j judge) observersOf() []*observer {
	all := map[string]*observer{}
	of := func(name string) *observer {
		if all[name] == nil {
			all[name] = &observer{name: name, begun: -1}
		}
		return all[name]
	}
	for _, e := range j.History.Events {
		switch e.Kind {
		case history.TargetFound:
			of(e.Node).pod, of(e.Node).target = e.Pod, e.Key+" at "+e.IP
		case history.ProberStarted:
			o := of(e.Node)
			o.starts++
			if o.begun < 0 {
				o.begun = e.At
			}
		case history.ProberEnded:
			o := of(e.Node)
			o.ended = append(o.ended, e)
		case history.ProberBroke:
			o := of(e.Node)
			o.broke = append(o.broke, e)
		}
	}
	for _, q := range j.History.Queries {
		if q.Target == history.Echo {
			continue
		}
		o := of(q.Node)
		o.asked++
		switch {
		case q.Outcome == history.Unsent:
			o.unsent++
		case q.Target == j.target.Service:
			o.sent = append(o.sent, q.Intended)
		}
	}
	for _, o := range all {
		slices.Sort(o.sent)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *observer) int { return cmp.Compare(a.name, b.name) })
}

// observers checks whether the probers of an observation kept their schedules, and whether
// each was there to the end, or to that of its node: what a prober that died did not see is a
// hole, not a pass.
func (j judge) observers(v Verdict) Verdict {
	v = v.wants(fmt.Sprintf("each prober on record to the end of its node or of the observation, at most %.0f %% unsent, the 99th percentile at most %s late", unsentShare*100, lateP99))
	from, ok := j.Started()
	if !ok {
		return v.unknown("nothing began, so that nothing was observed")
	}
	to := j.observedTo()
	var evidence []history.Event
	asked, unsent, late, there, whole, left := 0, 0, 0.0, 0, 0, 0
	targets := map[string]int{}
	all := j.observersOf()
	for _, o := range all {
		if why, e := j.distrusted(o); why != "" {
			found := v.unknown(fmt.Sprintf("the prober on %s: %s", o.name, why), known(e)...)
			found.Noise = len(o.broke) == 0
			return found
		}
		for _, e := range o.ended {
			late = max(late, e.Numbers[history.LateP99])
		}
		targets[o.target]++
		evidence = append(evidence, o.ended...)
		asked, unsent = asked+o.asked, unsent+o.unsent
		if o.begun < from-loss.BaselineTime {
			there++
		}
		if why := j.missing(o, from, to); why != "" {
			return v.unknown(fmt.Sprintf("the prober on %s: %s", o.name, why), capped(slices.Concat(o.broke, o.ended))...)
		}
		if last := o.sent[len(o.sent)-1]; last < to {
			left++
		} else if o.sent[0] <= from {
			whole++
		}
	}
	v.Numbers = map[string]float64{"probers": float64(there), "asked": float64(asked), "unsent": float64(unsent), "late_p99_ms": late * 1000}
	switch probers := j.Scenario.Probe.Probers; {
	case there < probers:
		return v.unknown(fmt.Sprintf("%d of %d probers were there when it began", there, probers))
	case whole == 0:
		return v.unknown("no prober was there from the beginning to the end", capped(evidence)...)
	}
	got := fmt.Sprintf("%d asked, %d unsent, 99th percentile %.1f ms late", asked, unsent, late*1000)
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		got += fmt.Sprintf("; %d of %d probers query %s", targets[target], len(all), target)
	}
	if left > 0 {
		got += fmt.Sprintf("; %d probers ended with their nodes", left)
	}
	if again := j.All(func(e history.Event) bool { return e.Kind == history.ProberResumed }); len(again) > 0 {
		got += fmt.Sprintf("; the connection to a prober broke %d times, and its record went on", len(again))
		evidence = append(evidence, again...)
	}
	return v.pass(got, capped(evidence)...)
}

// observedTo is up to when each prober must have queries on record.
func (j judge) observedTo() time.Duration {
	to := j.Observed
	for _, e := range j.Events {
		if history.Settle.BegunBy(e) {
			to = min(to, e.At+j.Scenario.Settle.D()) - edge
			break
		}
	}
	return to
}

// distrusted is why a prober's record proves nothing, or "".
func (j judge) distrusted(o *observer) (string, history.Event) {
	if o.starts > len(o.ended)+len(o.broke) {
		return "it never said how it went", history.Event{}
	}
	asked := 0.0
	for _, e := range o.ended {
		for _, number := range []history.Number{history.Asked, history.UnsentQueries, history.LateP99} {
			if _, ok := e.Numbers[number]; !ok {
				return fmt.Sprintf("it did not say %s", number), e
			}
		}
		switch late := e.Numbers[history.LateP99]; {
		case e.Numbers[history.Dropped] > 0:
			return fmt.Sprintf("%.0f answers came, but its node was too busy to take them", e.Numbers[history.Dropped]), e
		case !(late <= lateP99.Seconds()): // also NaN
			return fmt.Sprintf("the 99th percentile left %.0f ms late", late*1000), e
		}
		asked += e.Numbers[history.Asked]
	}
	switch {
	case float64(o.asked) < asked:
		return fmt.Sprintf("%.0f queries asked and %d on record", asked, o.asked), history.Event{}
	case len(o.sent) == 0:
		return "no query of it is on record", history.Event{}
	case float64(o.unsent) > unsentShare*float64(o.asked):
		return fmt.Sprintf("%d of %d queries could not leave", o.unsent, o.asked), history.Event{}
	}
	return "", history.Event{}
}

// missing is what a prober's record lacks between two times, or "". It may begin late, with its
// node, and end early with it.
func (j judge) missing(o *observer, from, to time.Duration) string {
	hole := gapMax
	if rate := (j.target.Fresh + j.target.Fixed) / j.Scenario.Probe.Probers; rate > 0 {
		hole = max(hole, 10*time.Second/time.Duration(rate))
	}
	for i, at := range o.sent[1:] {
		if before := o.sent[i]; at-before > hole && at > from && before < to {
			return fmt.Sprintf("no query on record between +%s and +%s", history.Seconds(before), history.Seconds(at))
		}
	}
	if last := o.sent[len(o.sent)-1]; last < to && !j.leftWith(o, last) {
		return fmt.Sprintf("its last query is of +%s, the observation went on until +%s, and its node did not leave", history.Seconds(last), history.Seconds(to))
	}
	return ""
}

// leftWith reports whether a prober's node left about when its record ended: it was deleted or
// not Ready, or it was marked and the prober's pod was ended.
func (j judge) leftWith(o *observer, last time.Duration) bool {
	marked, ended := 0, false
	for _, e := range j.Events {
		if e.At > last+leavesWith {
			break
		}
		switch {
		case e.Node == o.node() && (e.Kind == history.NodeDeleted || e.Kind == history.NodeNotReady) && e.At >= last-leavesWith:
			return true
		case e.Node == o.node() && (e.Kind == history.NodeCordoned || e.Kind == history.NodeTainted):
			marked++
		case e.Node == o.node() && (e.Kind == history.NodeUncordoned || e.Kind == history.NodeUntainted):
			marked--
		case e.Pod == o.pod && (e.Kind == history.PodTerminating || e.Kind == history.PodDeleted):
			ended = true
		}
	}
	return marked > 0 && ended
}

// direct says what the CoreDNS pods of an observation answered that were queried directly, while
// they were endpoints of the service. It is evidence, and no control: they may leave.
func (j judge) direct(v Verdict) string {
	if !j.target.Observed || j.target.Key != "" { // only those of CoreDNS are
		return ""
	}
	leaves := map[string]time.Duration{}
	for _, e := range j.target.Endpoints(j.Story, history.EndpointTerminating, history.EndpointNotReady, history.EndpointGone) {
		if _, ok := leaves[e.IP]; !ok {
			leaves[e.IP] = e.At - seenLate
		}
	}
	asked, lost := 0, 0
	for _, q := range j.History.Queries {
		ip, direct := history.AskedDirectly(q.Target)
		if left, leaving := leaves[ip]; !direct || leaving && q.Done > left || q.Outcome == history.Unsent {
			continue
		}
		asked++
		if q.Outcome.Lost() {
			lost++
		}
	}
	v.Numbers["asked_direct"], v.Numbers["lost_direct"] = float64(asked), float64(lost)
	return fmt.Sprintf("; of CoreDNS pods that were queried directly: %d of %d", lost, asked)
}
