package scenarios

import (
	"fmt"
	"slices"
	"time"

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

// String is the wait in words.
func (a Await) String() string {
	what := ""
	switch {
	case a.Deleted != "":
		what = "the messages of " + a.Deleted + " are deleted"
	case a.Received != "":
		what = "the messages of " + a.Received + " are received"
	case a.Evicting != "":
		what = "a pod of " + a.Evicting + " is terminating"
	case a.Drained != "":
		what = "no evictable pod is left on " + a.Drained
	case a.Answering > 0:
		what = fmt.Sprintf("DNS has answered every query for %s", a.Answering.D())
	case a.Hit != "":
		what = "fault " + a.Hit + " has affected a call"
	case a.Ended != "":
		what = a.Ended + " has ended"
	case a.Launched != "":
		what = "an instance has been launched since " + a.Launched
	case a.DNSPods > 0:
		what = fmt.Sprintf("%d CoreDNS pods are Ready", a.DNSPods)
	case a.Ready != "":
		what = "the pods of " + a.Ready + " are Ready again"
	}
	return fmt.Sprintf("wait until %s, at most %s", what, a.Timeout.D())
}

func (a Await) validate(where string, in *scope, p *problems) {
	conditions := 0
	for field, refers := range map[string]struct {
		to    string
		known []string
	}{
		"deleted": {a.Deleted, in.Sent}, "received": {a.Received, in.Sent},
		"evicting": {a.Evicting, in.Nodes}, "drained": {a.Drained, in.Nodes},
		"hit": {a.Hit, in.Faults}, "ended": {a.Ended, in.ending()}, "ready": {a.Ready, in.Pods},
		"launched": {a.Launched, in.launching()},
	} {
		if refers.to != "" {
			conditions++
			oneOf(p, where+"."+field, refers.to, refers.known)
		}
	}
	if a.Answering > 0 {
		conditions++
		in.needsProbe(where+".answering", p)
	}
	if a.DNSPods != 0 {
		conditions++
		validateReplicas(where+".dnsPods", a.DNSPods, p)
	}
	if conditions != 1 {
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
