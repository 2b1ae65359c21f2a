package explore

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	// slow is how late an answer or a call is that is late: longer than most clients wait for a lease, and shorter than a drain.
	slow = 10 * time.Second
	// held is how long a call waits in which something else happens: it has to be done by then.
	held = 5 * time.Second
	// outage is how long calls are not answered: longer than the timeout of the AWS SDKs' dialers, and than most polls.
	outage = 15 * time.Second
	// staleFor is how long a watch shows nothing new.
	staleFor = 20 * time.Second
	// killedWithin is how long a call waits at most for the handler that made it to be killed.
	killedWithin = 20 * time.Second
	// reached bounds the wait for the call that is disturbed.
	reached = 60 * time.Second
)

const (
	// disturbed is the name of the first fault of a variation; others have a number.
	disturbed = "disturbed"
	// again is the name of a notice that comes a second time.
	again = "again"
)

// Perturbation is what goes wrong at a point. Its steps are those of any scenario.
type Perturbation struct {
	Kind  string `yaml:"kind" json:"kind"`
	Point string `yaml:"point" json:"point"`

	fault fault.Fault
	// then are done once the fault has hit the call.
	then []scenarios.Step
	// takes is how much less time the handler has.
	takes time.Duration
}

// String is the perturbation in words.
func (p Perturbation) String() string { return p.Kind + " at " + p.Point }

// slug is a part of a scenario's name.
func (p Perturbation) slug() string {
	_, point, _ := strings.Cut(p.Point, ": ")
	point = strings.NewReplacer(" #", "-", " ", "-", "/", "-", ".", "-").Replace(strings.ToLower(point))
	return point + "-" + p.Kind
}

// kind is a kind of perturbation.
type kind struct {
	name string
	// at reports whether it is possible at a point.
	at    func(Point) bool
	fault fault.Fault
	// then are done once the fault has hit the call.
	then []scenarios.Step
}

func anywhere(Point) bool         { return true }
func onAPI(p Point) bool          { return p.On == history.OnAPI }
func writeOnAPI(p Point) bool     { return p.On == history.OnAPI && p.writes() }
func onQueue(p Point) bool        { return p.On == history.OnQueue && p.Call != receiveMessage }
func aMessage(p Point) bool       { return p.Call == receiveMessage }
func evicts(p Point) bool         { return p.On == history.OnAPI && p.Resource == "pods/eviction" }
func anyWrite(p Point) bool       { return p.writes() }
func writeOrMessage(p Point) bool { return p.writes() || aMessage(p) }

// kinds are all kinds of perturbations of a scenario with this notice.
func kinds(notice scenarios.Notice) []kind {
	d := func(t time.Duration) strict.Duration { return strict.Duration(t) }
	handler := func(verb scenarios.Verb, name string) []scenarios.Step {
		return []scenarios.Step{{Do: &scenarios.Do{Verb: verb, Target: scenarios.OnHandler, Name: name}}}
	}
	deletePods := []scenarios.Step{{Do: &scenarios.Do{Verb: scenarios.Delete, Target: scenarios.OnWorkload, Node: notice.Nodes[0]}}}
	touch := []scenarios.Step{{Do: &scenarios.Do{Verb: scenarios.Touch, Target: scenarios.OnNode, Node: notice.Nodes[0]}}}
	notice.Name = again
	put := []scenarios.Step{{Notice: &notice}}
	return []kind{
		// The process ends.
		{"crash-before", anyWrite, fault.Fault{Type: history.BlackHole, Count: 1, For: d(killedWithin)}, handler(scenarios.Kill, "crash")},
		{"crash-after", writeOrMessage, fault.Fault{Type: history.Delay, By: d(killedWithin), Count: 1}, handler(scenarios.Kill, "crash")},
		{"restart-after", writeOrMessage, fault.Fault{Type: history.Delay, By: d(held), Count: 1}, handler(scenarios.Restart, "restart")},
		// Answers.
		{"lost-answer", writeOrMessage, fault.Fault{Type: history.LostAnswer, Count: 1}, nil},
		{"conflict", writeOnAPI, fault.Fault{Type: history.Conflict, Count: 1}, nil},
		{"conflict-3-times", writeOnAPI, fault.Fault{Type: history.Conflict, Count: 3}, nil},
		{"throttle", onAPI, fault.Fault{Type: history.Throttle, RetryAfter: d(time.Second), Count: 1}, nil},
		{"throttle", onQueue, fault.Fault{Type: history.Throttle, Count: 1}, nil},
		{"throttle-5s", onQueue, fault.Fault{Type: history.Throttle, For: d(held)}, nil},
		{"denied", onAPI, fault.Fault{Type: history.Denied, Count: 1}, nil},
		{"denied", onQueue, fault.Fault{Type: history.ClientError, Code: history.AccessDenied, Count: 1}, nil},
		{"error-500", onAPI, fault.Fault{Type: history.ServerError, Status: http.StatusInternalServerError, Count: 1}, nil},
		{"error-500", onQueue, fault.Fault{Type: history.ServerError, Status: http.StatusInternalServerError, Count: 1}, nil},
		{"error-503-5s", onAPI, fault.Fault{Type: history.ServerError, Status: http.StatusServiceUnavailable, For: d(held)}, nil},
		{"reset", onAPI, fault.Fault{Type: history.Reset, Count: 1}, nil},
		{"reset", onQueue, fault.Fault{Type: history.Reset, Count: 1}, nil},
		{"slow", anywhere, fault.Fault{Type: history.Delay, By: d(slow), Count: 1}, nil},
		{"black-hole", onAPI, fault.Fault{Type: history.BlackHole, For: d(outage)}, nil},
		{"black-hole", onQueue, fault.Fault{Type: history.BlackHole, For: d(outage)}, nil},
		{"never", onAPI, fault.Fault{Type: history.BlackHole, For: d(held), Silent: true}, nil},
		// A message comes again.
		{"duplicate", aMessage, fault.Fault{Type: history.Duplicate, Count: 1}, nil},
		{"duplicate-later", aMessage, fault.Fault{Type: history.Duplicate, After: d(held), Count: 1}, nil},
		// What the handler knows is old.
		{"stale-pods", onAPI, fault.Fault{Type: history.Stale, Resources: []string{"pods"}, For: d(staleFor)}, nil},
		{"stale-nodes", onAPI, fault.Fault{Type: history.Stale, Resources: []string{"nodes"}, For: d(staleFor)}, nil},
		// Something happens meanwhile. What a handler writes to a node that has changed since is a conflict of the API server itself.
		{"changed-before", func(p Point) bool { return writeOnAPI(p) && p.Node == notice.Nodes[0] }, fault.Fault{Type: history.Held, By: d(held), Count: 1}, touch},
		{"pods-deleted-before", evicts, fault.Fault{Type: history.Held, By: d(held), Count: 1}, deletePods},
		{"notice-again-before", writeOnAPI, fault.Fault{Type: history.Held, By: d(held), Count: 1}, put},
		{"notice-again-after", anywhere, fault.Fault{Type: history.Delay, By: d(held), Count: 1}, put},
	}
}

// perturbations are those of a point.
func perturbations(p Point, notice scenarios.Notice, watched []string) (out []Perturbation) {
	for _, k := range kinds(notice) {
		stale := k.fault.Type == history.Stale
		if !k.at(p) || stale && !slices.Contains(watched, k.fault.Resources[0]) {
			continue
		}
		f := k.fault
		f.On, f.At, f.Name = p.On, p.Point.String(), disturbed
		takes := max(f.By.D(), f.For.D(), f.RetryAfter.D()) * time.Duration(max(1, f.Count))
		out = append(out, Perturbation{Kind: k.name, Point: p.String(), fault: f, then: k.then, takes: takes})
	}
	return out
}

// steps are those of perturbations that happen together: what is done before the scenario's own steps, and after its last notice.
func steps(all []Perturbation) (before, after []scenarios.Step, takes time.Duration) {
	for i, p := range all {
		f := p.fault
		if i > 0 {
			f.Name = fmt.Sprintf("%s-%d", disturbed, i+1)
		}
		before = append(before, scenarios.Step{Fault: &scenarios.Fault{Fault: f}})
		after = append(after, scenarios.Step{Await: &scenarios.Await{Hit: f.Name, Timeout: strict.Duration(reached)}})
		after = append(after, p.then...)
		takes += p.takes
	}
	return before, after, takes
}
