package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// partner is a later scenario that can be played at the same time as this one: of those,
// the one whose duration is nearest. There is none if scenarios are repeated, or the
// cluster is to be kept after a failure. One that the handler is known to fail has none:
// after its failure both would be played again.
func (s *Session) partner(scenario scenarios.Scenario) (best scenarios.Scenario, ok bool) {
	at := slices.IndexFunc(s.Scenarios, func(o scenarios.Scenario) bool { return o.Name == scenario.Name })
	if s.Keep || s.Repeat > 1 || at < 0 || s.played[scenario.Name] || s.Handler.Deviations[scenario.Name] != "" {
		return best, false
	}
	apart := func(o scenarios.Scenario) time.Duration {
		return (Expected(o, s.Set) - Expected(scenario, s.Set)).Abs()
	}
	for _, o := range s.Scenarios[at+1:] {
		fits := !s.played[o.Name] && s.NotApplicable(o) == "" && s.Handler.Deviations[o.Name] == "" &&
			s.shares(scenario, o) && s.Handler.For(o.Feature, o.Setting).Same(s.Handler.For(scenario.Feature, scenario.Setting))
		if fits && (!ok || apart(o) < apart(best)) {
			best, ok = o, true
		}
	}
	return best, ok
}

// shares reports whether the claims of two scenarios permit that they are played at the same time, with the same
// settings of the handler.
func (s *Session) shares(scenario, o scenarios.Scenario) bool {
	return scenarios.FixedNodes().Conflict(scenario.Claims().With(scenarios.HandlerProcess, ""), o.Claims().With(scenarios.HandlerProcess, "")) == ""
}

// playTogether plays two scenarios at the same time. It counts only if both pass: one drill
// may have disturbed the other, so after a failure both are played again, alone, and
// done is false. The partner's entry waits for its turn.
func (s *Session) playTogether(ctx context.Context, scenario, partner scenarios.Scenario) (entry reports.Entry, done bool, err error) {
	start, both := time.Now(), []scenarios.Scenario{scenario, partner}
	s.stopwatch.play(len(both))
	var drills []run.Drill
	for _, one := range both {
		drill, err := s.prepare(s.folder, one, s.Handler, 1)
		if err != nil {
			return entry, false, err
		}
		s.played[one.Name] = true
		drills = append(drills, drill)
	}
	s.console.Also(partner.Name)
	played := s.playDrills(ctx, s.system, func() (aftermath, *coredns.Settings) { return restoreOnly, s.nextDNS() }, drills...)
	s.stopwatch.enter(reports.Judging)
	var entries []reports.Entry
	passed := played == nil
	for i, drill := range drills {
		e, err := s.judge(drill)
		if err != nil {
			return e, false, err
		}
		if e.Outcome != verdict.Pass {
			passed = false
			s.console.Note(fmt.Sprintf("%s next to %s: %s, so both are played alone", e.Scenario, both[1-i].Name, e.Outcome))
		}
		e.Expected, e.Measured = reports.Seconds(Expected(both[i], s.Set)), reports.Seconds(time.Since(start))
		entries = append(entries, e)
	}
	s.replacePodsUnless(passed)
	if !passed && ctx.Err() == nil {
		return entry, false, nil
	}
	if passed {
		entries[0].PlayedWith, entries[1].PlayedWith = partner.Name, scenario.Name
		s.ahead[partner.Name] = entries[1]
	}
	return entries[0], true, played
}
