package scenarios

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Step is one thing that happens in a drill. Exactly one field is set.
type Step struct {
	Notice  *Notice  `yaml:"notice,omitempty"`
	Message *Message `yaml:"message,omitempty"`
	Await   *Await   `yaml:"await,omitempty"`
	Reclaim *Reclaim `yaml:"reclaim,omitempty"`
	Fault   *Fault   `yaml:"fault,omitempty"`
	Do      *Do      `yaml:"do,omitempty"`
}

// stepKind is what each kind of step knows of itself. Each has a file of its own.
type stepKind interface {
	// String is the step in words: "notice reclaim: spot-interruption for victim".
	fmt.Stringer
	// validate checks the step at that path against what is in scope, and adds to the
	// scope what the step defines.
	validate(where string, in *scope, p *problems)
	// effect is what the step means for the drill as a whole.
	effect() effect
}

// effect is what a step means for the drill that it is part of.
type effect struct {
	nodes         []string      // that it acts on, by their names in the scenario
	takes         time.Duration // at least
	afterNotice   time.Duration // how long after a notice it is done, at least
	untilDeadline bool          // it is done at the deadline of a notice
	begins        string        // the fault or disturbance that it begins
	lasts         time.Duration // how long that lasts
	awaitsEndOf   string        // the fault or disturbance whose end it waits for
	alone         []Resource    // what the drill needs for itself because of it
	real          bool          // its nodes must be real ones
	allDNSPods    bool          // it acts on every CoreDNS pod
}

// Kind returns the one kind of step that is set, as a value such as Notice or Await.
// It is nil unless exactly one is set.
func (s Step) Kind() any {
	_, value, err := strict.Only(s)
	if err != nil {
		return nil
	}
	return value
}

// String is the step in words.
func (s Step) String() string {
	if kind, ok := s.Kind().(stepKind); ok {
		return kind.String()
	}
	return "no action set"
}

func (s Step) effect() effect {
	if kind, ok := s.Kind().(stepKind); ok {
		return kind.effect()
	}
	return effect{}
}

func (s Scenario) effects() []effect {
	out := make([]effect, len(s.Steps))
	for i, step := range s.Steps {
		out[i] = step.effect()
	}
	return out
}

// stepsOf returns the steps of one kind, in their order.
func stepsOf[T stepKind](s Scenario) []T {
	var out []T
	for _, step := range s.Steps {
		if kind, ok := step.Kind().(T); ok {
			out = append(out, kind)
		}
	}
	return out
}

// Messages returns the messages that the steps send to the queue.
func (s Scenario) Messages() []Message { return stepsOf[Message](s) }

// Expected is a lower bound of the time that the drill takes in a set: a wait that
// may end early counts only where the scenario determines its length.
func (s Scenario) Expected(set Set) time.Duration {
	total, afterNotice := time.Duration(0), time.Duration(0)
	ends := map[string]time.Duration{} // of faults
	for _, e := range s.effects() {
		switch {
		case e.begins != "":
			ends[e.begins] = total + e.lasts
		case e.awaitsEndOf != "":
			total = max(total, ends[e.awaitsEndOf])
		}
		total += e.takes
		afterNotice = max(afterNotice, e.afterNotice)
		if e.untilDeadline {
			afterNotice = max(afterNotice, s.Deadline.For(set))
		}
	}
	return total + afterNotice + s.settles()
}
