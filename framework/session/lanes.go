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
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// MaxLanes is how many lanes there can be: an AWS account and a few virtual nodes each.
const MaxLanes = 16

// forLanes are the scenarios that can be played in lanes, the longest first. All have the same settings of CoreDNS, those that
// most of them have. There are none if it is only one, scenarios are repeated, or the cluster is to be kept after a failure. One that the
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
	if len(out) < 2 {
		return nil
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

// playInLanes plays scenarios in lanes, at the same time, before it is the first one's turn. The entries of those that pass
// wait for theirs. What does not pass is played again then, alone: neither a neighbour nor a busy machine may decide a verdict.
func (s *Session) playInLanes(ctx context.Context) {
	chosen := s.forLanes()
	if len(chosen) == 0 {
		return
	}
	count := min(s.Lanes, len(chosen))
	start := time.Now()
	s.console.Note(fmt.Sprintf("%d of %s play in %d lanes, on virtual nodes; what does not pass there is played alone", len(chosen), history.Count(len(s.Scenarios), "drill"), count))
	entries, err := s.atOnce(ctx, &lanes{batch: Batch{Scenarios: chosen, Attempt: 1}, folder: s.folder, under: s.Handler}, count)
	if err != nil {
		s.console.Note("lanes: " + oneLine(err))
	}
	for name, entry := range entries {
		s.played[name] = true
		switch {
		case entry.Outcome == verdict.Pass:
			s.ahead[name] = entry
		case ctx.Err() == nil:
			s.notPassed[name] = fmt.Sprintf("%s in lane %d: %s", entry.Outcome, entry.Lane, entry.First().Check)
		}
	}
	s.console.Note(fmt.Sprintf("%d of %d passed in lanes, in %.0f s", len(s.ahead), len(chosen), time.Since(start).Seconds()))
}

// AttemptsInLanes is Attempts of several scenarios, each once and in a lane of its own, at the same time. It returns the entries by
// the scenarios' names.
func (s *Session) AttemptsInLanes(ctx context.Context, name string, under handler.Description, all ...scenarios.Scenario) (entries map[string]reports.Entry, err error) {
	err = s.withHandler(ctx, name, under, func(folder reports.Folder) (err error) {
		entries, err = s.atOnce(ctx, &lanes{batch: Batch{Scenarios: all, Attempt: 1}, folder: folder, under: under}, len(all))
		return err
	})
	return entries, err
}

// Batch is what PlayBatch plays: variations of one scenario, which need not be the session's.
type Batch struct {
	Scenarios []scenarios.Scenario
	Attempt   int                 // of each, from 1; it is part of the folder of its history
	More      func() bool         // reports whether another may begin; nil for always
	Done      func(reports.Entry) // gets each entry when it is known, one after the other; nil for nothing
}

// more reports whether another scenario may begin.
func (b Batch) more() bool { return len(b.Scenarios) > 0 && (b.More == nil || b.More()) }

// done hands over an entry.
func (b Batch) done(e reports.Entry) {
	if b.Done != nil {
		b.Done(e)
	}
}

// AtOnce is how many scenarios of a batch are played at the same time: as many as there are lanes, or one with a handler that a
// cluster can have only once.
func (s *Session) AtOnce() int {
	if s.Handler.OncePerCluster() != "" {
		return 1
	}
	return max(1, s.Lanes)
}

// PlayBatch plays each scenario of a batch once: in the session's lanes, or one after the other on real nodes with a handler that a
// cluster can have only once. Nothing of that is in the report, unless it is included. It is an error if one of them cannot be
// played in this way.
func (s *Session) PlayBatch(ctx context.Context, b Batch) error {
	alone := s.Handler.OncePerCluster() != ""
	for _, scenario := range b.Scenarios {
		why := s.NotApplicable(scenario)
		if why == "" && !alone {
			why = scenario.Claims().NotInLane()
		}
		if why != "" {
			return fmt.Errorf("%s cannot be played: %s", scenario.Name, why)
		}
	}
	switch {
	case len(b.Scenarios) == 0:
		return nil
	case alone:
		return s.oneByOne(ctx, b)
	}
	_, err := s.atOnce(ctx, &lanes{batch: b, folder: s.folder, under: s.Handler}, min(s.AtOnce(), len(b.Scenarios)))
	return err
}

// oneByOne plays a batch without lanes.
func (s *Session) oneByOne(ctx context.Context, b Batch) error {
	for ; ctx.Err() == nil && b.more(); b.Scenarios = b.Scenarios[1:] {
		scenario, start := b.Scenarios[0], time.Now()
		s.console.Begin(scenario.Name, Expected(scenario, s.Set))
		s.stopwatch.begin()
		entry, err := s.playOnce(ctx, s.folder, scenario, s.Handler, b.Attempt, false)
		s.report.Timings.Took(s.stopwatch.stop())
		s.console.Conclude(fmt.Sprintf("%s, %.0f s", entry.Outcome, time.Since(start).Seconds()))
		if err != nil {
			return err
		}
		b.done(entry)
	}
	return nil
}

// Include adds a play of PlayBatch to the report, as if its scenario were one of the session's.
func (s *Session) Include(scenario scenarios.Scenario, e reports.Entry) {
	s.Scenarios = append(s.Scenarios, scenario)
	s.report.Add(e)
}

// atOnce plays scenarios in so many lanes, and returns the entries of those that were played, by their names. All must have the same
// settings of CoreDNS.
func (s *Session) atOnce(ctx context.Context, all *lanes, count int) (map[string]reports.Entry, error) {
	all.Session, all.entries = s, map[string]reports.Entry{}
	if err := errors.Join(s.system.SetDNS(ctx, all.batch.Scenarios[0].CoreDNS), s.system.StartKwok(ctx)); err != nil {
		return nil, err
	}
	s.console.Lanes(count)
	var running sync.WaitGroup
	for n := range count {
		running.Go(func() {
			if err := all.play(ctx, n+1); err != nil && ctx.Err() == nil {
				s.console.Note(fmt.Sprintf("lane %d ends, the others go on: %s", n+1, oneLine(err)))
			}
		})
	}
	running.Wait()
	s.console.EndLanes()
	return all.entries, s.system.StopKwok(context.WithoutCancel(ctx))
}

// lanes are those of a session, in progress.
type lanes struct {
	*Session
	folder reports.Folder
	under  handler.Description

	mu      sync.Mutex
	batch   Batch // its scenarios are those that no lane has begun
	entries map[string]reports.Entry
}

// next is a scenario that no lane has: if possible one for which the handler stays as it is.
func (l *lanes) next(installed *handler.Description) (scenarios.Scenario, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.batch.more() {
		return scenarios.Scenario{}, false
	}
	i := 0
	if installed != nil {
		i = max(0, slices.IndexFunc(l.batch.Scenarios, func(o scenarios.Scenario) bool { return installed.Same(l.installed(o)) }))
	}
	chosen := l.batch.Scenarios[i]
	l.batch.Scenarios = slices.Concat(l.batch.Scenarios[:i], l.batch.Scenarios[i+1:])
	return chosen, true
}

// installed is the handler as the scenario's drill has it.
func (l *lanes) installed(scenario scenarios.Scenario) handler.Description {
	return l.installations(scenario, l.under)[0].Handler
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
		installed = new(l.installed(scenario))
	}
	return err
}

func (l *lanes) playOne(ctx context.Context, lane *system.System, number int, scenario scenarios.Scenario) error {
	start := time.Now()
	l.console.InLane(number, scenario.Name)
	drill, err := l.prepare(l.folder, scenario, l.under, l.batch.Attempt)
	if err != nil {
		return err
	}
	drill.Progress = l.shown(scenario.Name) // the stopwatch is for one drill
	played := l.playDrills(ctx, lane, func() (aftermath, *coredns.Settings) { return restoreOnly, nil }, drill)
	entry, err := l.judge(drill)
	entry.Lane, entry.Attempts = number, l.batch.Attempt
	entry.Expected, entry.Measured = reports.Seconds(Expected(scenario, l.Set)), reports.Seconds(time.Since(start))
	if entry.Outcome != verdict.Pass || played != nil {
		lane.Handlers.ReplacePods()
	}
	if ctx.Err() == nil {
		l.console.Note(fmt.Sprintf("lane %d: %s … %s, %.0f s", number, scenario.Name, entry.Outcome, time.Since(start).Seconds()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[scenario.Name] = entry
	l.batch.done(entry)
	return errors.Join(played, err)
}
