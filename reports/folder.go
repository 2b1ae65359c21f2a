package reports

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Names in a run's folder.
const (
	YAMLFile    = "report.yaml"
	JUnitFile   = "junit.xml"
	HTMLFile    = "report.html"
	SummaryFile = "summary.txt" // the counts, one line
	MetricsFile = "metrics.txt" // OpenMetrics
	// MarkdownFile is for the summary of a CI job, BadgeFile for shields.io.
	MarkdownFile = "summary.md"
	BadgeFile    = "badge.json"
	Latest       = "latest" // next to the run folders, a link to the newest with reports
)

// Folder has all files of one run:
//
//	<root>/latest -> 20260102-150405
//	<root>/20260102-150405/report.html, report.yaml, junit.xml, metrics.txt, summary.md, summary.txt, badge.json
//	<root>/20260102-150405/<scenario>/attempt-1/history.jsonl, queries.bin, <scenario>.yaml
//	<root>/20260102-150405/repeat-2/<scenario>/attempt-1/… if scenarios are repeated
type Folder struct {
	Path string // of the run's folder
	Run  string // the run's id: its local start time, numbered if two runs share it

	started time.Time
}

// NewFolder makes a folder for the run that started at that time.
func NewFolder(root string, started time.Time) (Folder, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Folder{}, fmt.Errorf("make reports folder: %w", err)
	}
	id := started.Format("20060102-150405")
	run := id
	for n := 2; ; n++ {
		err := os.Mkdir(filepath.Join(root, run), 0o755)
		if err == nil {
			return Folder{Path: filepath.Join(root, run), Run: run, started: started}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return Folder{}, fmt.Errorf("make run folder: %w", err)
		}
		run = fmt.Sprintf("%s-%d", id, n)
	}
}

// Repeat is the folder of the n-th play of each scenario, counted from 1.
func (f Folder) Repeat(n int) Folder {
	if n > 1 {
		f.Path = filepath.Join(f.Path, fmt.Sprintf("repeat-%d", n))
	}
	return f
}

// Attempt makes the folder of a scenario's attempt, counted from 1, and saves
// the scenario in it so that its history can be judged again. Relative makes an
// Entry.History of it.
func (f Folder) Attempt(s scenarios.Scenario, attempt int) (string, error) {
	dir := filepath.Join(f.Path, s.Name, fmt.Sprintf("attempt-%d", attempt))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make attempt folder: %w", err)
	}
	if err := os.WriteFile(ScenarioFile(dir, s.Name), s.Text, 0o644); err != nil {
		return "", fmt.Errorf("save scenario: %w", err)
	}
	return dir, nil
}

// Remove removes what was recorded of a scenario.
func (f Folder) Remove(s scenarios.Scenario) error {
	return wrap.Errorf(os.RemoveAll(filepath.Join(f.Path, s.Name)), "remove what an earlier session recorded")
}

// Relative is an attempt's folder in the form of Entry.History.
func (f Folder) Relative(attemptDir string) string {
	rel, err := filepath.Rel(f.Path, attemptDir)
	if err != nil {
		return attemptDir
	}
	return filepath.ToSlash(rel)
}

// ScenarioFile is where the scenario of a history is saved, next to it. The
// loader requires a file to be named after its scenario.
func ScenarioFile(attemptDir, scenario string) string {
	return filepath.Join(attemptDir, scenario+".yaml")
}

// Write writes every report into the run's folder and points Latest at it.
func (f Folder) Write(r *Report) error {
	written := errors.Join(
		writeFile(filepath.Join(f.Path, YAMLFile), r.WriteYAML),
		writeFile(filepath.Join(f.Path, JUnitFile), r.WriteJUnit),
		writeFile(filepath.Join(f.Path, HTMLFile), r.WriteHTML),
		writeFile(filepath.Join(f.Path, MetricsFile), r.WriteOpenMetrics),
		writeFile(filepath.Join(f.Path, MarkdownFile), r.WriteMarkdown),
		writeFile(filepath.Join(f.Path, BadgeFile), r.WriteBadge),
		writeFile(filepath.Join(f.Path, SummaryFile), func(w io.Writer) error {
			_, err := fmt.Fprintln(w, r.Summary)
			return err
		}),
	)
	if written != nil { // Latest stays with a run whose files are whole
		return written
	}
	return f.link()
}

func writeFile(name string, write func(io.Writer) error) error {
	return wrap.Errorf(files.Replace(filepath.Dir(name), filepath.Base(name), write), "write report %s", filepath.Base(name))
}

// link replaces Latest in one step: there is no moment without it.
func (f Folder) link() error {
	latest := filepath.Join(filepath.Dir(f.Path), Latest)
	next := latest + "." + f.Run
	if err := os.Symlink(f.Run, next); err != nil {
		return fmt.Errorf("link latest run: %w", err)
	}
	if err := os.Rename(next, latest); err != nil {
		return errors.Join(fmt.Errorf("link latest run: %w", err), os.Remove(next))
	}
	return nil
}
