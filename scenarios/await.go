package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Await waits until a condition holds. If the timeout passes first, the drill
// continues all the same: whether that is a failure is for the checks to decide.
// Exactly one condition is set.
type Await struct {
	// Deleted waits until the messages of a notice or message step have been deleted
	// from the queue.
	Deleted string `yaml:"deleted,omitempty"`
	// Received waits until the messages of a notice or message step have been received.
	Received string `yaml:"received,omitempty"`
	// Evicting waits until a pod of the node is terminating.
	Evicting string `yaml:"evicting,omitempty"`
	// Drained waits until no evictable pod is left on the node.
	Drained string `yaml:"drained,omitempty"`
	// Answering waits until the DNS service has answered every query for this long.
	Answering strict.Duration `yaml:"answering,omitempty"`
	// Hit waits until the fault has affected a call.
	Hit string `yaml:"hit,omitempty"`
	// Ended waits until the fault or the disturbance has ended.
	Ended string `yaml:"ended,omitempty"`
	// Ready waits until all pods of this group of the workload are Ready again and none
	// of them is terminating.
	Ready string `yaml:"ready,omitempty"`
	// Launched waits until an instance has been launched since this notice, reconfiguration or
	// deletion of a node.
	Launched string `yaml:"launched,omitempty"`
	// DNSPods waits until so many CoreDNS pods are Ready, and no others are terminating.
	DNSPods int `yaml:"dnsPods,omitempty"`
	// Timeout is the longest time to wait.
	Timeout strict.Duration `yaml:"timeout"`
}

// condition is one that refers to a step, a node or pods by a name.
type condition struct {
	field, name string
	known       []string // the names that there are
	words       string
}

func (a Await) conditions(in *scope) []condition {
	return []condition{
		{"deleted", a.Deleted, in.Sent, "the messages of %s are deleted"},
		{"received", a.Received, in.Sent, "the messages of %s are received"},
		{"evicting", a.Evicting, in.Nodes, "a pod of %s is terminating"},
		{"drained", a.Drained, in.Nodes, "no evictable pod is left on %s"},
		{"hit", a.Hit, in.Faults, "fault %s has affected a call"},
		{"ended", a.Ended, in.ending(), "%s has ended"},
		{"launched", a.Launched, in.launching(), "an instance has been launched since %s"},
		{"ready", a.Ready, in.Scenario.Workload.Groups(), "the pods of %s are Ready again"},
	}
}

// String is the wait in words.
func (a Await) String() string {
	until := ""
	switch {
	case a.Answering > 0:
		until = fmt.Sprintf("DNS has answered every query for %s", a.Answering.D())
	case a.DNSPods > 0:
		until = fmt.Sprintf("%s are Ready", history.Count(a.DNSPods, "CoreDNS pod"))
	}
	for _, c := range a.conditions(&scope{}) {
		if c.name != "" {
			until = fmt.Sprintf(c.words, c.name)
		}
	}
	return fmt.Sprintf("wait until %s, at most %s", until, a.Timeout.D())
}

func (a Await) validate(where string, in *scope, p *problems) {
	given := count(a.Answering > 0, a.DNSPods != 0)
	for _, c := range a.conditions(in) {
		given += count(c.name != "")
		oneOfIfSet(p, where+"."+c.field, c.name, c.known)
	}
	if a.Answering > 0 {
		in.needsProbe(where+".answering", p)
	}
	if a.DNSPods != 0 {
		validateReplicas(where+".dnsPods", a.DNSPods, p)
	}
	if given != 1 {
		p.add(where, "requires exactly one of: answering, deleted, dnsPods, drained, ended, evicting, hit, launched, ready, received")
	}
	p.positive(where+".timeout", a.Timeout)
}

// dnsOutage is how long DNS keeps failing after a node was lost without a drain:
// node-monitor-grace-period is 50 s since Kubernetes 1.32.
const dnsOutage = time.Minute

func (a Await) effect() effect {
	if a.Answering > 0 {
		return effect{takes: dnsOutage}
	}
	return effect{awaitsEndOf: a.Ended}
}

// AwaitingAtMost returns the scenario with no timeout of an await above the limit.
func (s Scenario) AwaitingAtMost(limit time.Duration) Scenario {
	s.Steps = slices.Clone(s.Steps)
	for i, step := range s.Steps {
		if await, ok := step.Kind().(Await); ok {
			await.Timeout = min(await.Timeout, strict.Duration(limit))
			s.Steps[i].Await = &await
		}
	}
	return s
}
