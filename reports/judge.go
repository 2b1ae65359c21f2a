package reports

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// ErrNoHistory is the error of Judge for a folder without a history.
var ErrNoHistory = errors.New("no history")

// Read reads the report of a run's folder. The histories in it are judged again; without
// any, the report is what its YAML file has, see Missing.
func Read(ctx context.Context, dir string) (*Report, error) {
	r, err := Judge(ctx, dir)
	if !errors.Is(err, ErrNoHistory) {
		return r, err
	}
	r, unread := Load(filepath.Join(dir, YAMLFile))
	if errors.Is(unread, fs.ErrNotExist) {
		return nil, err
	}
	return r, unread
}

// Judge judges the histories of a run again, those of all repeats. The folder is that of a run, of a
// scenario (its last attempt counts, as in the run) or of one attempt. What the
// histories do not have (set-up, skipped scenarios) is taken from the run's YAML
// report. It ends between two of them if the context does.
func Judge(ctx context.Context, dir string) (*Report, error) {
	attempts, err := attemptsIn(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(attempts))
	var first history.Meta
	for _, attempt := range attempts {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("judge %s: %w", dir, err)
		}
		e, meta, err := judgeAttempt(dir, attempt)
		if err != nil {
			return nil, fmt.Errorf("judge %s: %w", attempt, err)
		}
		if len(entries) == 0 {
			first = meta
		}
		plays, err := judgeRepeats(ctx, dir, attempt)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Worst(append([]Entry{e}, plays...)))
	}
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return slices.Index(scenarios.Profiles(), a.Profile) - slices.Index(scenarios.Profiles(), b.Profile)
	})
	saved, err := Load(filepath.Join(dir, YAMLFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return judgedAlone(Folder{Path: dir, Run: filepath.Base(dir), started: first.Base}, first, entries...), nil
	case err != nil:
		return nil, fmt.Errorf("%w; without that file the histories are judged alone", err)
	}
	return judgedAgain(dir, saved, entries), nil
}

// judgedAlone is the report of histories without a run's report.
func judgedAlone(folder Folder, meta history.Meta, entries ...Entry) *Report {
	r := New(folder, Handler{Name: meta.Handler.Name, Version: meta.Handler.Version}, scenarios.Set(meta.Set), meta.Environment)
	r.Catalogue = "" // the build that judges may be another one than the build that played
	for _, e := range entries {
		r.Add(e)
	}
	return r
}

// Observed judges the history of an observation, and writes the reports.
func Observed(folder Folder, attempt string, setup time.Duration) (*Report, error) {
	e, meta, err := judgeAttempt(folder.Path, attempt)
	if err != nil {
		return nil, fmt.Errorf("judge %s: %w", attempt, err)
	}
	r := judgedAlone(folder, meta, e)
	r.Timings.Setup = Seconds(setup)
	r.Timings.Ended(time.Duration(e.Measured))
	return r, folder.Write(r)
}

// judgedAgain is a run's report with the new verdicts in it. Entries without a history
// do not change.
func judgedAgain(dir string, saved *Report, entries []Entry) *Report {
	r := sameRun(dir, saved)
	for _, was := range saved.Results {
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Scenario == was.Scenario })
		if i < 0 {
			r.Add(was)
			continue
		}
		entries[i].Attempts, entries[i].Measured, entries[i].PlayedWith = was.Attempts, was.Measured, was.PlayedWith
		entries[i].Lane, entries[i].LaneAttempt = was.Lane, was.LaneAttempt
		r.Add(entries[i])
		entries = slices.Delete(entries, i, i+1)
	}
	for _, e := range entries {
		r.Add(e)
	}
	r.Timings, r.EndedEarly = saved.Timings, saved.EndedEarly
	return r
}

// sameRun is a report of the run of another one, without its results.
func sameRun(dir string, was *Report) *Report {
	r := New(Folder{Path: dir, Run: was.Run, started: was.Started}, was.Handler, was.Set, maps.Clone(was.Environment))
	r.Other, r.Shard, r.Catalogue, r.LeftOut = was.Other, was.Shard, was.Catalogue, was.LeftOut
	return r
}

func judgeAttempt(run, dir string) (Entry, history.Meta, error) {
	s, h, err := loadAttempt(dir)
	if err != nil {
		return Entry{}, history.Meta{}, err
	}
	e := judged(s, h)
	e.History = Folder{Path: run}.Relative(dir)
	return e, h.Meta, nil
}

// judgeRepeats judges the other plays of the scenario whose first one is in a run's folder: there are some if the run
// repeated it.
func judgeRepeats(ctx context.Context, run, first string) ([]Entry, error) {
	scenario := filepath.Dir(first)
	if filepath.Dir(scenario) != filepath.Clean(run) {
		return nil, nil
	}
	var plays []Entry
	for n := 2; ; n++ {
		attempt := lastAttempt(filepath.Join(Folder{Path: run}.Repeat(n).Path, filepath.Base(scenario)))
		if attempt == "" {
			return plays, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("judge %s: %w", run, err)
		}
		e, _, err := judgeAttempt(run, attempt)
		if err != nil {
			return nil, fmt.Errorf("judge %s: %w", attempt, err)
		}
		plays = append(plays, e)
	}
}

func loadAttempt(dir string) (s scenarios.Scenario, h history.History, err error) {
	if h, err = history.Load(dir); err != nil {
		return s, h, err
	}
	s, err = verdict.Scenarios().LoadRecorded(ScenarioFile(dir, h.Meta.Scenario))
	return s, h, err
}

func judged(s scenarios.Scenario, h history.History) Entry {
	e := NewEntry(verdict.Judge(s, h))
	if n := len(h.Events); n > 0 {
		e.Measured = Seconds(h.Events[n-1].At)
	}
	return e
}

// attemptsIn finds the attempts to judge in a folder, sorted by name.
func attemptsIn(dir string) ([]string, error) {
	if isAttempt(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for histories: %w", err)
	}
	if last := lastAttempt(dir); last != "" {
		return []string{last}, nil
	}
	var found, seen []string
	for _, e := range entries {
		seen = append(seen, e.Name())
		if !e.IsDir() {
			continue // a symbolic link leads out of the run
		}
		if last := lastAttempt(filepath.Join(dir, e.Name())); last != "" {
			found = append(found, last)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	what := "nothing"
	if len(seen) > 0 {
		what = strings.Join(seen[:min(len(seen), 8)], ", ")
	}
	return nil, fmt.Errorf("%[5]w in %[1]s: looked for %[2]s, attempt-*/%[2]s and */attempt-*/%[2]s; the folder holds %[3]s; name the folder of a run, a scenario or an attempt, such as reports/out/%[4]s",
		dir, history.EventsFile, what, Latest, ErrNoHistory)
}

// isAttempt reports whether a folder has a history, whatever kind of file that is: reading it decides.
func isAttempt(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, history.EventsFile))
	return err == nil
}

// lastAttempt is a scenario folder's attempt with the highest number.
func lastAttempt(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	last, name := 0, ""
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "attempt-")
		n, err := strconv.Atoi(number)
		if attempt := filepath.Join(dir, e.Name()); ok && err == nil && n > last && e.IsDir() && isAttempt(attempt) {
			last, name = n, attempt
		}
	}
	return name
}
