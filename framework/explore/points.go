package explore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// mostOfAKind is how many calls of the same kind are points: what goes wrong at the fourth eviction went wrong at the third.
const mostOfAKind = 3

// Point is a call that a handler makes while a drill is played, always.
type Point struct {
	On history.FaultTarget
	fault.Point
}

// String names the point: "api: patch nodes victim #1".
func (p Point) String() string { return fmt.Sprintf("%s: %s", p.On, p.Point) }

// writes reports whether the call is to change something.
func (p Point) writes() bool {
	return p.On == history.OnQueue && p.Call != receiveMessage || slices.Contains([]string{"create", "update", "patch", "delete"}, p.Call)
}

// receiveMessage is the action of SQS that is only a point if its answer has messages.
const receiveMessage = "ReceiveMessage"

// call is one call on record.
type call struct {
	at   time.Duration // when it arrived at the proxy
	kind Point         // without its number
}

// callsOf are the handler's calls since the first step, in the order in which they arrived.
func callsOf(st *story.Story) (calls []call) {
	began, ok := st.First(history.Steps.BegunBy)
	if !ok {
		return nil
	}
	for _, e := range st.History.Events {
		c := call{at: e.At - e.Numbers.Duration(history.Took)}
		switch {
		case e.Fault != "" || e.Owner == history.ProxyOwner:
			continue
		case e.Kind == history.APICall:
			c.kind = Point{history.OnAPI, fault.Point{Call: e.Action, Resource: history.KubectlName(e.Resource)}}
			if e.Node != "" {
				c.kind.Node = st.Role(e.Node)
			}
			if e.Node != "" && c.kind.Node == "" || c.kind.Resource == history.KubectlName(history.LeasesResource) {
				continue // of another node, or at any time
			}
		case e.Kind == history.SQSCall && slices.Contains(fault.Actions(), e.Action):
			c.kind = Point{history.OnQueue, fault.Point{Call: e.Action}}
			if e.Action == receiveMessage {
				if e.Numbers[history.Messages] == 0 {
					continue
				}
				c.at = e.At // that is when there was a message
			}
		default:
			continue
		}
		first := c.kind
		first.N = 1
		// What is no resource, such as the discovery of an API, is no point.
		if _, err := fault.ParsePoint(first.On, first.Point.String()); err == nil && c.at >= began.At {
			calls = append(calls, c)
		}
	}
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.at, b.at) })
	return calls
}

// followedIn are the kinds of calls of a play that come one after the other, each once.
func followedIn(st *story.Story) (followed []string) {
	last := "the notice"
	for _, c := range callsOf(st) {
		kind := c.kind.Kind()
		if step := last + " > " + kind; !slices.Contains(followed, step) {
			followed = append(followed, step)
		}
		last = kind
	}
	return followed
}

// pointsOf are the points that each of these plays has, in the order of the first one.
func pointsOf(plays []*story.Story) (points []Point) {
	least := map[Point]int{}
	for i, st := range plays {
		count := map[Point]int{}
		for _, c := range callsOf(st) {
			count[c.kind]++
		}
		if i == 0 {
			least = count
			continue
		}
		for kind, n := range least {
			least[kind] = min(n, count[kind])
		}
	}
	if len(plays) == 0 {
		return nil
	}
	seen := map[Point]int{}
	for _, c := range callsOf(plays[0]) {
		seen[c.kind]++
		if n := seen[c.kind]; n <= min(least[c.kind], mostOfAKind) {
			p := c.kind
			p.N = n
			points = append(points, p)
		}
	}
	return points
}
