package loss

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// leavesWith is how long before or after the end of a prober's record its node may be seen to
// leave: a node is marked before its last pod ends, and the node controller notices a lost one
// after 40 to 50 s (node-monitor-grace-period).
const leavesWith = time.Minute

// Prober is what is on record of a prober in a cluster that is not spotdrill's own.
type Prober struct {
	Name   string          // as history.TargetFound has it
	Target string          // what it queries
	Begun  time.Duration   // its first record began
	Ended  []history.Event // with its account
	Broke  []history.Event
	Asked  int // on record, without those to itself
	Unsent int
	Sent   []time.Duration // queries to the service, ascending

	pod    string
	starts int
}

// node is the node that the prober ran on.
func (p *Prober) node() string {
	node, _, _ := strings.Cut(p.Name, "#")
	return node
}

// Probers reads what each prober recorded, in order of their names.
func Probers(st *story.Story, t Target) []*Prober {
	all := map[string]*Prober{}
	of := func(name string) *Prober {
		if all[name] == nil {
			all[name] = &Prober{Name: name, Begun: -1}
		}
		return all[name]
	}
	for _, e := range st.History.Events {
		switch e.Kind {
		case history.TargetFound:
			if e.Node == "" { // about the application
				continue
			}
			of(e.Node).pod, of(e.Node).Target = e.Pod, e.Target()+" at "+e.IP
		case history.ProberStarted:
			o := of(e.Node)
			o.starts++
			if o.Begun < 0 {
				o.Begun = e.At
			}
		case history.ProberEnded:
			o := of(e.Node)
			o.Ended = append(o.Ended, e)
		case history.ProberBroke:
			o := of(e.Node)
			o.Broke = append(o.Broke, e)
		}
	}
	for _, q := range st.History.Queries {
		if q.Target == history.Echo {
			continue
		}
		o := of(q.Node)
		o.Asked++
		switch {
		case q.Outcome == history.Unsent:
			o.Unsent++
		case q.Target == t.Service:
			o.Sent = append(o.Sent, q.Intended)
		}
	}
	for _, o := range all {
		slices.Sort(o.Sent)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *Prober) int { return cmp.Compare(a.Name, b.Name) })
}

// Distrusted is why a prober's record proves nothing, or "".
func (p *Prober) Distrusted() (string, history.Event) {
	if p.starts > len(p.Ended)+len(p.Broke) {
		return "it reported no result", history.Event{}
	}
	asked := 0.0
	for _, e := range p.Ended {
		for _, number := range []history.Number{history.Asked, history.UnsentQueries, history.LateP99} {
			if _, ok := e.Numbers[number]; !ok {
				return fmt.Sprintf("it did not report %s", number), e
			}
		}
		switch late := e.Numbers[history.LateP99]; {
		case e.Numbers[history.Dropped] > 0:
			return history.Count(int(e.Numbers[history.Dropped]), "answer") + " came, but its node was too busy to take them", e
		case !(late <= LateP99.Seconds()): // also NaN
			return fmt.Sprintf("the 99th percentile left %.0f ms late", late*1000), e
		}
		asked += e.Numbers[history.Asked]
	}
	switch {
	case float64(p.Asked) < asked:
		return fmt.Sprintf("%.0f queries asked and %d on record", asked, p.Asked), history.Event{}
	case len(p.Sent) == 0:
		return "no query of it is on record", history.Event{}
	case float64(p.Unsent) > UnsentShare*float64(p.Asked):
		return fmt.Sprintf("%d of %s could not leave", p.Unsent, history.Count(p.Asked, "query")), history.Event{}
	}
	return "", history.Event{}
}

// Missing is what a prober's record lacks between two times, or "". It may begin late, with its
// node, and end early with it.
func (p *Prober) Missing(st *story.Story, t Target, from, to time.Duration) string {
	hole := GapMax
	if rate := (t.Fresh + t.Fixed) / t.probers; rate > 0 {
		hole = max(hole, 10*time.Second/time.Duration(rate))
	}
	for i, at := range p.Sent[1:] {
		if before := p.Sent[i]; at-before > hole && at > from && before < to {
			return fmt.Sprintf("no query on record between +%s and +%s", history.Seconds(before), history.Seconds(at))
		}
	}
	if last := p.Sent[len(p.Sent)-1]; last < to && !p.leftWith(st, last) {
		return fmt.Sprintf("its last query is of +%s, the observation went on until +%s, and its node did not leave", history.Seconds(last), history.Seconds(to))
	}
	return ""
}

// leftWith reports whether a prober's node left about when its record ended: it was deleted or
// not Ready, or it was marked and the prober's pod was ended.
func (p *Prober) leftWith(st *story.Story, last time.Duration) bool {
	marked, ended := 0, false
	for _, e := range st.Events {
		if e.At > last+leavesWith {
			break
		}
		switch {
		case e.Node == p.node() && (e.Kind == history.NodeDeleted || e.Kind == history.NodeNotReady) && e.At >= last-leavesWith:
			return true
		case e.Node == p.node() && (e.Kind == history.NodeCordoned || e.Kind == history.NodeTainted):
			marked++
		case e.Node == p.node() && (e.Kind == history.NodeUncordoned || e.Kind == history.NodeUntainted):
			marked--
		case e.Pod == p.pod && (e.Kind == history.PodTerminating || e.Kind == history.PodDeleted):
			ended = true
		}
	}
	return marked > 0 && ended
}

// AskedDirectly counts the queries to the CoreDNS pods of an observation that were queried
// directly, while they were endpoints of the service, and those that were lost. It is evidence,
// and no control: they may leave.
func AskedDirectly(st *story.Story, t Target) (asked, lost int) {
	leaves := map[string]time.Duration{}
	for _, e := range t.Endpoints(st, history.EndpointTerminating, history.EndpointNotReady, history.EndpointGone) {
		if _, ok := leaves[e.IP]; !ok {
			leaves[e.IP] = e.At - story.SeenLate
		}
	}
	for _, q := range st.History.Queries {
		ip, direct := history.AskedDirectly(q.Target)
		if left, leaving := leaves[ip]; !direct || leaving && q.Done > left || q.Outcome == history.Unsent {
			continue
		}
		asked++
		if q.Outcome.Lost() {
			lost++
		}
	}
	return asked, lost
}

// OnRecord counts the queries of all probers, and those of them that never left. A prober's account is
// without those to itself.
func OnRecord(st *story.Story) (asked, unsent float64) {
	for _, q := range st.History.Queries {
		if q.Target == history.Echo {
			continue
		}
		asked++
		if q.Outcome == history.Unsent {
			unsent++
		}
	}
	return asked, unsent
}
