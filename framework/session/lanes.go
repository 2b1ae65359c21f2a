package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// MaxLanes is how many lanes there can be: an AWS account and a few virtual nodes each.
const MaxLanes = 16

// forLanes are the scenarios that can be played in lanes, the longest first. All have the same settings of CoreDNS, those that
// most of them have. There are none if scenarios are repeated, or the cluster is to be kept after a failure. One that the
// handler is known to fail is not among them: it would be played again.
func (s *Session) forLanes() (out []scenarios.Scenario) {
	if s.Lanes < 2 || s.Keep || s.Repeat > 1 || s.Other != nil || s.Handler.OncePerCluster() != "" {
		return nil
	}
	byDNS := map[string][]scenarios.Scenario{}
	for _, scenario := range s.Scenarios {
		claims := scenario.Claims()
		if s.NotApplicable(scenario) != "" || claims.NotInLane() != "" || s.Handler.Deviations[scenario.Name] != "" {
			continue
		}
		dns, _ := claims.Of(scenarios.ClusterDNS, scenarios.Shared)
		byDNS[dns.As] = append(byDNS[dns.As], scenario)
		if len(byDNS[dns.As]) > len(out) {
			out = byDNS[dns.As]
		}
	}
	slices.SortStableFunc(out, func(a, b scenarios.Scenario) int { return int(Expected(b, s.Set) - Expected(a, s.Set)) })
	return out
}

// LaneNames are the names of the scenarios that are to be played in lanes.
func (s *Session) LaneNames() (names []string) {
	for _, scenario := range s.forLanes() {
		names = append(names, scenario.Name)
	}
	return names
}

// lanes are those of a session, in progress.
type lanes struct {
	*Session
	mu   sync.Mutex // of todo, and of what lanes find in the session
	todo []scenarios.Scenario
}

// next is a scenario that no lane has: if possible one for which the handler stays as it is.
func (l *lanes) next(installed *handler.Description) (scenarios.Scenario, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.todo) == 0 {
		return scenarios.Scenario{}, false
	}
	i := 0
	if installed != nil {
		i = max(0, slices.IndexFunc(l.todo, func(o scenarios.Scenario) bool { return installed.Same(l.underTestOf(o)) }))
	}
	chosen := l.todo[i]
	l.todo = slices.Delete(l.todo, i, i+1)
	return chosen, true
}

// underTestOf is the handler as the scenario's drill has it.
func (s *Session) underTestOf(scenario scenarios.Scenario) handler.Description {
	return s.installations(scenario, s.Handler)[0].Handler
}

// playInLanes plays scenarios in lanes, at the same time, before it is the first one's turn. The entries of those that pass
// wait for theirs. What does not pass is played again then, alone: neither a neighbour nor a busy machine may decide a verdict.
func (s *Session) playInLanes(ctx context.Context) {
	all := &lanes{Session: s, todo: s.forLanes()}
	drills, count := len(all.todo), min(s.Lanes, len(all.todo))
	if count < 2 {
		return
	}
	start := time.Now()
	s.console.Note(fmt.Sprintf("%d of %s play in %d lanes, on virtual nodes; what does not pass there is played alone", drills, history.Count(len(s.Scenarios), "drill"), count))
	err := s.system.SetDNS(ctx, all.todo[0].CoreDNS)
	if err == nil {
		err = s.system.StartKwok(ctx)
	}
	if err == nil {
		s.console.Lanes(count)
		var running sync.WaitGroup
		for n := range count {
			running.Go(func() {
				if err := all.play(ctx, n+1); err != nil {
					s.console.Note(fmt.Sprintf("lane %d ends, the others go on: %s", n+1, oneLine(err)))
				}
			})
		}
		running.Wait()
		s.console.EndLanes()
	}
	if err = errors.Join(err, s.system.StopKwok(context.WithoutCancel(ctx))); err != nil {
		s.console.Note("lanes: " + oneLine(err))
	}
	s.console.Note(fmt.Sprintf("%d of %d passed in lanes, in %.0f s", len(s.ahead), drills, time.Since(start).Seconds()))
}

// play plays in one lane what no other lane has begun. An error ends the lane.
func (l *lanes) play(ctx context.Context, number int) (err error) {
	lane, err := l.system.Lane(ctx, number, scenarios.FixedNodes().Spot)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
		defer cancel()
		err = errors.Join(err, lane.End(ctx))
	}()
	var installed *handler.Description
	for err == nil && ctx.Err() == nil {
		scenario, ok := l.next(installed)
		if !ok {
			return nil
		}
		err = l.playOne(ctx, lane, number, scenario)
		installed = new(l.underTestOf(scenario))
	}
	return err
}

func (l *lanes) playOne(ctx context.Context, lane *system.System, number int, scenario scenarios.Scenario) error {
	start := time.Now()
	l.console.InLane(number, scenario.Name)
	dir, err := l.folder.Attempt(scenario, 1)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.played[scenario.Name] = true
	l.mu.Unlock()
	drill := run.Drill{Scenario: scenario, Set: l.Set, Handlers: l.installations(scenario, l.Handler), Attempt: 1, Dir: dir, Progress: l.shown(scenario.Name)}
	played := l.playDrills(ctx, lane, func() (aftermath, *coredns.Settings) { return restoreOnly, nil }, drill)
	entry, err := l.judge(drill)
	entry.Lane, entry.Attempts = number, 1
	entry.Expected, entry.Measured = reports.Seconds(Expected(scenario, l.Set)), reports.Seconds(time.Since(start))
	passed := played == nil && err == nil && entry.Outcome == verdict.Pass
	if !passed {
		lane.Handlers.ReplacePods()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if passed {
		l.ahead[scenario.Name] = entry
	} else if ctx.Err() == nil {
		l.notPassed[scenario.Name] = fmt.Sprintf("%s in lane %d: %s", entry.Outcome, number, entry.First().Check)
	}
	if ctx.Err() == nil {
		l.console.Note(fmt.Sprintf("lane %d: %s … %s, %.0f s", number, scenario.Name, entry.Outcome, time.Since(start).Seconds()))
	}
	return wrap.Errorf(errors.Join(played, err), "lane %d", number)
}
