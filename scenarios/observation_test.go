package scenarios

import (
	"testing"
	"time"
)

// at is an offset of so many seconds.
func at(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

// decidedBy is a requirement of which only the time matters.
type decidedBy func(Times) Observation

func (decidedBy) Validate(*Scope) {}

func (by decidedBy) DecidedBy(t Times) Observation { return by(t) }

func TestWhatADrillWaitsFor(t *testing.T) {
	deleted := Check{Kind: "deleted", Requirement: decidedBy(func(t Times) Observation { return Happens(t.Sent["reclaim"] + at(50)) })}
	once := Check{Requirement: decidedBy(func(t Times) Observation { return Absent(t.Stepped + RepeatTime) })}
	s := Scenario{Checks: []Check{deleted, once, {Requirement: decidedBy(func(Times) Observation { return AtEnd() })}}}
	times := Times{Sent: map[string]time.Duration{"reclaim": at(10)}, Stepped: at(20)}
	if until, open := s.Undecided(times, at(25)); until != at(30) || len(open) != 1 || open[0].Kind != "deleted" {
		t.Errorf("at 25 s: until %s, open %+v", until, open)
	}
	if until, open := s.Undecided(times, at(60)); until != at(30) || len(open) != 0 {
		t.Errorf("at 60 s: until %s, open %+v", until, open)
	}
}
