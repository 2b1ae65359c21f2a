package reports

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Judge judges what a run recorded once more. The folder is that of a run, of a
// scenario (its last attempt counts, as in the run) or of one attempt.
func Judge(dir string) ([]Entry, error) {
	attempts, err := attemptsIn(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(attempts))
	for _, attempt := range attempts {
		e, err := judgeAttempt(attempt)
		if err != nil {
			return nil, fmt.Errorf("judge %s: %w", attempt, err)
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return slices.Index(scenarios.Profiles(), a.Profile) - slices.Index(scenarios.Profiles(), b.Profile)
	})
	return entries, nil
}

func judgeAttempt(dir string) (Entry, error) {
	h, err := history.Load(dir)
	if err != nil {
		return Entry{}, err
	}
	s, err := scenarios.LoadFile(ScenarioFile(dir, h.Meta.Scenario))
	if err != nil {
		return Entry{}, err
	}
	e := NewEntry(verdict.Judge(s, h), h)
	e.History = dir
	if n := len(h.Events); n > 0 {
		e.Measured = Seconds(h.Events[n-1].At)
	}
	return e, nil
}

// attemptsIn finds the attempts to judge in a folder, in order of their names.
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
	return nil, fmt.Errorf("no history in %[1]s: looked for %[2]s, attempt-*/%[2]s and */attempt-*/%[2]s; the folder holds %[3]s; name the folder of a run, a scenario or an attempt, such as reports/out/%[4]s",
		dir, history.EventsFile, what, Latest)
}

func isAttempt(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, history.EventsFile))
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
		if attempt := filepath.Join(dir, e.Name()); ok && err == nil && n > last && isAttempt(attempt) {
			last, name = n, attempt
		}
	}
	return name
}
