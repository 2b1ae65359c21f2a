package chaos

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// The scenarios of RESILIENCE allow as much.
const (
	marked  = 30 * time.Second // from the end of the queue's outage to the node's mark
	deleted = 90 * time.Second // from the end of the queue's outage to the message's deletion
)

// compose is a round of a seed: the queue fails in some way, it holds meaningless
// messages, and in the middle of the drain something happens to the handler. The same
// seed and round give the same scenario.
func compose(seed uint64, round int) scenarios.Scenario {
	random := rand.New(rand.NewPCG(seed, uint64(round)))
	s := scenarios.Scenario{
		APIVersion: scenarios.APIVersion, Kind: scenarios.Kind,
		Name:        fmt.Sprintf("chaos-%d-%d", seed, round),
		Title:       "A drain is finished, once, whatever else goes wrong",
		Description: fmt.Sprintf("Round %d of seed %d: faults of the queue, meaningless messages and a disturbance of the handler, each of which it survives alone, at once.", round, seed),
		Source:      "https://github.com/jepsen-io/jepsen/blob/main/doc/tutorial/05-nemesis.md",
		Profile:     "RESILIENCE", Sets: []scenarios.Set{scenarios.Fast, scenarios.Full}, Feature: "spot",
		CoreDNS: coredns.Defaults(),
		// The slow pod makes the drain long enough to have a middle.
		Workload: scenarios.Workload{Replicas: 3, Pods: []scenarios.Pods{{Kind: "slow", Node: "victim"}, {Kind: "critical", Node: "victim"}}},
		Nodes:    map[string]scenarios.Pick{"victim": {Capacity: "spot"}, "bystander": {Capacity: "spot"}},
		Deadline: scenarios.Deadline{Fast: seconds(120), Full: seconds(120)},
		Settle:   seconds(5),
	}
	then := func(steps ...scenarios.Step) { s.Steps = append(s.Steps, steps...) }

	if random.IntN(3) == 0 {
		then(scenarios.Step{Do: &scenarios.Do{Verb: scenarios.Scale, Target: scenarios.OnHandler, Name: "replicas", Replicas: 2}})
	}
	if extra := pick(random, messageFaults()); extra != nil {
		then(scenarios.Step{Fault: &scenarios.Fault{Fault: *extra}})
	}
	outage := pick(random, outages(seconds(3+random.IntN(10))))
	then(scenarios.Step{Fault: &scenarios.Fault{Fault: *outage}})
	if outage.Type != "delay" { // it hits only answers, and there is nothing to answer yet
		then(await(scenarios.Await{Hit: outage.Name}, 25))
	}
	for i := range random.IntN(3) {
		then(scenarios.Step{Message: &scenarios.Message{Name: fmt.Sprintf("dirt-%d", i), Body: pick(random, dirt())}})
	}
	then(
		scenarios.Step{Notice: &scenarios.Notice{Name: "reclaim", Type: "spot-interruption", Nodes: []string{"victim"}, Action: pick(random, []string{"terminate", "stop", "hibernate"})}},
		await(scenarios.Await{Evicting: "victim"}, 60),
		scenarios.Step{Do: pick(random, disturbances(seconds(5+random.IntN(10))))},
		await(scenarios.Await{Ended: outage.Name}, 30),
		await(scenarios.Await{Drained: "victim"}, 110),
		await(scenarios.Await{Deleted: "reclaim"}, 90),
	)
	s.Checks = []scenarios.Check{
		verdict.Require(verdict.MidDrain{Disturbance: "nemesis", Node: "victim"}),
		verdict.Require(verdict.Marked{Node: "victim", Notice: "reclaim", After: outage.Name, Within: strict.Duration(marked)}),
		verdict.Require(verdict.Drained{Node: "victim", Notice: "reclaim"}),
		verdict.Require(verdict.DrainedOnce{Node: "victim"}),
		verdict.Require(verdict.Deleted{Of: "reclaim", After: outage.Name, Within: strict.Duration(deleted)}),
		verdict.Require(verdict.Untouched{Node: "bystander"}),
		verdict.Require(verdict.QueueEmpty{}),
	}
	return s
}

// outages are the ways in which the queue itself can fail for a time.
func outages(length strict.Duration) []*fault.Fault {
	return []*fault.Fault{
		{On: history.OnQueue, Name: "outage", Type: "error", Status: 500, For: length},
		{On: history.OnQueue, Name: "outage", Type: "error", Status: 503, For: length},
		{On: history.OnQueue, Name: "outage", Type: "throttle", For: length},
		{On: history.OnQueue, Name: "outage", Type: "throttle", Code: "RequestThrottled", For: length},
		{On: history.OnQueue, Name: "outage", Type: "reset", For: length},
		{On: history.OnQueue, Name: "outage", Type: "black-hole", For: length},
		{On: history.OnQueue, Name: "outage", Type: "delay", By: seconds(1), For: length},
	}
}

// messageFaults are the ways in which one message or answer can go wrong; nil is none.
func messageFaults() []*fault.Fault {
	return []*fault.Fault{
		nil,
		{On: history.OnQueue, Name: "message", Type: "lost-answer", Count: 1},
		{On: history.OnQueue, Name: "message", Type: "duplicate", Count: 1},
		{On: history.OnQueue, Name: "message", Type: "duplicate", Count: 1, After: seconds(2)},
	}
}

// disturbances are what can happen to the handler in the middle of a drain.
func disturbances(length strict.Duration) []*scenarios.Do {
	return []*scenarios.Do{
		{Verb: scenarios.Kill, Target: scenarios.OnHandler, Name: "nemesis"},
		{Verb: scenarios.Restart, Target: scenarios.OnHandler, Name: "nemesis"},
		{Verb: scenarios.CutOff, Target: scenarios.OnHandler, Name: "nemesis", For: length},
	}
}

// dirt is the meaningless messages that a queue may hold.
func dirt() []string {
	return []string{"{}", "not JSON", `{"version":"0","source":"aws.ec2","detail-type":"Something New","detail":{}}`}
}

func pick[T any](random *rand.Rand, of []T) T { return of[random.IntN(len(of))] }

func seconds(n int) strict.Duration { return strict.Duration(time.Duration(n) * time.Second) }

func await(what scenarios.Await, timeout int) scenarios.Step {
	what.Timeout = seconds(timeout)
	return scenarios.Step{Await: &what}
}

// read loads a composed scenario like one from a file.
func read(s scenarios.Scenario) (scenarios.Scenario, error) {
	text, err := yaml.Marshal(s)
	if err != nil {
		return s, fmt.Errorf("write %s: %w", s.Name, err)
	}
	return verdict.Scenarios().Parse(s.Name+".yaml", text)
}

func TestEveryRoundIsAScenarioAndTheSameOneAgain(t *testing.T) {
	kinds := map[string]bool{}
	for seed := range uint64(20) {
		for round := range 20 {
			s, err := read(compose(seed, round))
			if err != nil {
				t.Fatal(err)
			}
			if again, err := read(compose(seed, round)); err != nil || !reflect.DeepEqual(s, again) {
				t.Errorf("seed %d, round %d: another scenario the second time: %v", seed, round, err)
			}
			for _, step := range s.Steps {
				switch {
				case step.Fault != nil:
					kinds[string(step.Fault.Type)] = true
				case step.Do != nil:
					kinds[string(step.Do.Verb)] = true
				}
			}
		}
	}
	for _, want := range []string{"error", "throttle", "reset", "black-hole", "delay", "lost-answer", "duplicate", "kill", "restart", "cut-off", "scale"} {
		if !kinds[want] {
			t.Errorf("no round of 400 has %q", want)
		}
	}
}

func TestEveryRoundHasALabel(t *testing.T) {
	rounds, err := draw(1, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rounds {
		for _, want := range []string{fmt.Sprintf("round:%d", i+1), "profile:RESILIENCE", "feature:spot", "core"} {
			if !slices.Contains(r.labels(), want) {
				t.Errorf("%s: labels %q lack %s", r.scenario.Name, r.labels(), want)
			}
		}
	}
}
