package scenarios

import (
	"maps"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

const (
	// ReactionTime is how long a drill is recorded after its last notice, message, or
	// end of a fault or disturbance, so that a wrong reaction can show. The catalogue
	// requires the right reaction, a mark, within the same 5 s.
	ReactionTime = 5 * time.Second
	// RepeatTime is how long a drill is recorded after its last step, so that a second
	// drain, or a pod that is scheduled to the node, can show. By then the first drain is
	// over and its message deleted. A handler that forgets it begins another with its next
	// retry, poll or resync, a few seconds later, which needs ReactionTime to show. A
	// message that comes again only after its visibility timeout has scenarios of its own.
	RepeatTime = 2 * ReactionTime
	// BlockedTime is how long after its notice a blocked drain is recorded, so that an event
	// for each attempt can show: evictions are retried every second to every five.
	BlockedTime = time.Minute
	// StopTime is how long after the last disturbance a drill is recorded at most, so that
	// it shows how the handler's pods end: no description gives them more than 60 s.
	StopTime = 90 * time.Second
)

// Times are when what a scenario refers to happened in a drill, as offsets of its
// recording. What has not happened is missing, and counts as 0.
type Times struct {
	Sent      map[string]time.Duration // notices, messages, reconfigurations and deletions of nodes, by their steps
	Deadlines map[string]time.Duration // of notices
	Ended     map[string]time.Duration // faults and disturbances; one that lasts, when it will end
	Changed   map[string]time.Duration // budgets, by their steps
	Reclaimed map[string]time.Duration // instances, by the names of their nodes
	Caused    time.Duration            // the last thing that a handler can react to
	Stepped   time.Duration            // the last step
}

// Times reads from the events of the scenario's drill when its steps took effect.
func (s Scenario) Times(events []history.Event) Times {
	t := Times{
		Sent: map[string]time.Duration{}, Deadlines: map[string]time.Duration{}, Ended: map[string]time.Duration{},
		Changed: map[string]time.Duration{}, Reclaimed: map[string]time.Duration{},
	}
	roles, lasting := map[string]string{}, map[string]time.Duration{}
	for _, e := range s.effects() {
		lasting[e.begins] = e.lasts
	}
	for _, d := range s.Disturbances() {
		lasting[d.Name] = d.For.D()
	}
	for _, e := range events {
		switch e.Kind {
		case history.NodeRole:
			roles[e.Node] = e.Role()
		case history.NoticePut:
			t.Sent[e.Step()] = e.At
			if e.Until != nil {
				t.Deadlines[e.Step()] = *e.Until
			}
		case history.MessagePut, history.HandlerReconfigured:
			t.Sent[e.Step()] = e.At
		case history.FaultBegun, history.HandlerDisturbed:
			if lasting[e.Step()] > 0 {
				t.Ended[e.Step()] = e.At + lasting[e.Step()]
			}
		case history.FaultEnded:
			t.Ended[e.Step()] = e.At
		case history.BudgetSet:
			t.Changed[e.Step()] = e.At
		case history.Reclaimed:
			t.Reclaimed[roles[e.Node]] = e.At
		case history.OperatorActed:
			if e.Step() != "" {
				t.Sent[e.Step()] = e.At
			}
			if e.Operation() == history.StartAgain {
				delete(t.Reclaimed, roles[e.Node])
			}
		case history.HandlerLeftAlone:
			t.Ended[e.Step()] = e.At
			t.Caused = max(t.Caused, e.At)
		case history.RunPhase:
			if history.Settle.BegunBy(e) {
				t.Stepped = e.At
			}
		}
	}
	for _, named := range []map[string]time.Duration{t.Sent, t.Ended, t.Changed} {
		t.Caused = max(t.Caused, slices.Max(append(slices.Collect(maps.Values(named)), 0)))
	}
	return t
}

// Observation is how long a check needs the recording.
type Observation struct {
	// Until is the last moment at which what is recorded can decide the check.
	Until time.Duration
	// Early reports whether the check can be decided before, because it requires that
	// something happens. What must not happen can happen until the last moment.
	Early bool
}

// Happens is the observation of a check that requires something by that time.
func Happens(by time.Duration) Observation { return Observation{by, true} }

// Absent is the observation of a check that forbids something until that time.
func Absent(until time.Duration) Observation { return Observation{Until: until} }

// AtEnd is the observation of a check that judges what was recorded, however long that
// is: settle determines it.
func AtEnd() Observation { return Observation{} }

// On ends the observation when the instance of its node is gone: what happens to the
// node later is not the handler's doing.
func (o Observation) On(node string, t Times) Observation {
	if gone, ok := t.Reclaimed[node]; ok {
		o.Until = min(o.Until, gone)
	}
	return o
}

// Reaction is when every reaction to what the drill did has shown.
func (t Times) Reaction() time.Duration { return t.Caused + ReactionTime }

// SentOrEnded is when a time to act begins that counts from a notice or message, and from the
// end of a fault if that is later.
func (t Times) SentOrEnded(name, after string) time.Duration {
	return max(t.Sent[name], t.Ended[after])
}

// Undecided returns what a drill has to wait for after its steps: the latest time that
// checks of what must not happen need, and the checks that need more than now unless
// what they require has happened.
func (s Scenario) Undecided(t Times, now time.Duration) (until time.Duration, open []Check) {
	for _, check := range s.Checks {
		switch needs := check.DecidedBy(t); {
		case !needs.Early:
			until = max(until, needs.Until)
		case needs.Until > now:
			open = append(open, check)
		}
	}
	return until, open
}

// settles is how long recording continues after the last step, at least.
func (s Scenario) settles() time.Duration {
	gone := map[string]time.Duration{}
	for _, reclaim := range stepsOf[Reclaim](s) {
		gone[reclaim.Node] = 0
	}
	absence, _ := s.Undecided(Times{Reclaimed: gone, Caused: -ReactionTime}, 0)
	return max(s.Settle.D(), absence)
}
