package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// MaxAttempts is how many times a scenario is played at most if noise keeps it from
// being judged: what is still noise then stays Unknown, and red.
const MaxAttempts = 4

// playRepeats plays a scenario as many times as the session's Repeat requires, and returns
// the worst entry.
func (s *Session) playRepeats(ctx context.Context, scenario scenarios.Scenario) (worst reports.Entry, err error) {
	start, repeats, first := time.Now(), max(1, s.Repeat), 1
	if s.played[scenario.Name] {
		first = 2
	}
	var plays []reports.Entry
	for n := 1; n == 1 || n <= repeats && err == nil && ctx.Err() == nil && s.unrestored == ""; n++ {
		var entry reports.Entry
		entry, err = s.playAttempts(ctx, s.folder.Repeat(n), scenario, s.Handler, first, s.Keep)
		plays = append(plays, entry)
		if repeats > 1 {
			s.console.Note(fmt.Sprintf("%d of %d: %s", n, repeats, entry.Outcome))
		}
	}
	worst = reports.Worst(plays)
	worst.Expected *= reports.Seconds(len(plays))
	worst.Measured = reports.Seconds(time.Since(start))
	return worst, err
}

// playAttempts plays a scenario alone, again as long as noise keeps it from being
// judged; first is the number of the first attempt.
func (s *Session) playAttempts(ctx context.Context, folder reports.Folder, scenario scenarios.Scenario, under handler.Description, first int, keep bool) (reports.Entry, error) {
	start := time.Now()
	for attempt := first; ; attempt++ {
		entry, err := s.playOnce(ctx, folder, scenario, under, attempt, keep)
		entry.Attempts = attempt
		entry.Expected, entry.Measured = reports.Seconds(Expected(scenario, s.Set)), reports.Seconds(time.Since(start))
		if err != nil || s.unrestored != "" || !again(entry.Result, attempt-first+1) {
			return entry, err
		}
		s.console.Note(fmt.Sprintf("attempt %d could not be judged, playing it again: %s", attempt, noise(entry.Result)))
	}
}

// again reports whether another attempt may show more.
func again(r verdict.Result, attempt int) bool {
	return attempt < MaxAttempts && verdict.NeedsRerun(r)
}

func noise(r verdict.Result) string {
	for _, v := range r.Verdicts {
		if v.Noise {
			return v.Check + ": " + v.Got
		}
	}
	return "noise"
}

// playOnce plays a scenario once. The error is the harness's own; the entry has it too.
func (s *Session) playOnce(ctx context.Context, folder reports.Folder, scenario scenarios.Scenario, under handler.Description, attempt int, keep bool) (reports.Entry, error) {
	s.stopwatch.play(1)
	drill, err := s.prepare(folder, scenario, under, attempt)
	if err != nil {
		return reports.NewEntry(verdict.NotRun(scenario, err.Error())), err
	}
	played := s.playDrills(ctx, s.system, func() (aftermath, *coredns.Settings) {
		h, err := history.Load(drill.Dir)
		if err != nil { // the final judgement reports it
			return saveAndRestore, s.nextDNS()
		}
		ahead := verdict.Ahead(scenario, h)
		after := aftermathOf(ahead, attempt, keep && ctx.Err() == nil)
		if after == saveAndLeave {
			s.unrestored = drill.Dir
		}
		if again(ahead, attempt) {
			return after, &scenario.CoreDNS
		}
		return after, s.nextDNS()
	}, drill)
	s.stopwatch.enter(reports.Judging)
	entry, err := s.judge(drill)
	if err != nil {
		return entry, err
	}
	s.replacePodsUnless(entry.Outcome == verdict.Pass)
	return entry, played
}

// replacePodsUnless gives the next drill new pods of the handler after one that did not pass: a handler that
// waits for ever, perhaps for a request that was never answered, would fail all that follow.
func (s *Session) replacePodsUnless(passed bool) {
	if !passed {
		s.system.Handlers.ReplacePods()
	}
}

// prepare is the drill of an attempt, which reports its progress on the console.
func (s *Session) prepare(folder reports.Folder, scenario scenarios.Scenario, under handler.Description, attempt int) (run.Drill, error) {
	dir, err := folder.Attempt(scenario, attempt)
	return run.Drill{
		Scenario: scenario, Set: s.Set, Handlers: s.installations(scenario, under), Attempt: attempt, Dir: dir, Progress: s.progress(scenario.Name),
	}, err
}

// nextDNS are the settings of CoreDNS in the drill that follows the current one; nil if
// none is known to follow.
func (s *Session) nextDNS() *coredns.Settings {
	all := slices.Concat(s.Scenarios, s.More)
	for _, next := range all[min(len(s.report.Results)-s.earlier+1, len(all)):] {
		if _, done := s.ahead[next.Name]; !done && s.Repeat <= 1 && s.NotApplicable(next) == "" {
			return &next.CoreDNS
		}
	}
	return nil
}

// judge is the entry of a drill that was played.
func (s *Session) judge(drill run.Drill) (reports.Entry, error) {
	h, err := history.Load(drill.Dir)
	if err != nil {
		return reports.NewEntry(verdict.NotRun(drill.Scenario, err.Error())), err
	}
	entry := reports.NewEntry(verdict.Judge(drill.Scenario, h))
	entry.History = s.folder.Relative(drill.Dir)
	return entry, nil
}

// aftermathOf is what happens to the cluster after a drill with this result.
func aftermathOf(r verdict.Result, attempt int, keep bool) aftermath {
	switch {
	case r.Outcome == verdict.Pass:
		return restoreOnly
	case keep && !again(r, attempt):
		return saveAndLeave
	}
	return saveAndRestore
}

// progress shows on the console how far a scenario's drill is, and measures its phases.
func (s *Session) progress(scenario string) func(history.Event) {
	shown := s.shown(scenario)
	return func(e history.Event) {
		if e.Kind == history.RunPhase {
			s.stopwatch.begins(e.Phase())
		}
		shown(e)
	}
}

// shown shows on the console how far a scenario's drill is.
func (s *Session) shown(scenario string) func(history.Event) {
	return func(e history.Event) {
		switch {
		case e.Kind == history.RunPhase:
			s.console.Phase(scenario, string(e.Phase()))
		case e.Kind == history.NoticePut && e.Until != nil:
			s.console.Deadline(scenario, time.Now().Add(*e.Until-e.At))
		}
	}
}
