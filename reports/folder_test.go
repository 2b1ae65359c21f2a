package reports

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestEveryRunGetsAFolderOfItsOwn(t *testing.T) {
	root := filepath.Join(t.TempDir(), "out")
	started := time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local)
	for _, want := range []string{"20260102-150405", "20260102-150405-2", "20260102-150405-3"} {
		f, err := NewFolder(root, started)
		if err != nil {
			t.Fatal(err)
		}
		if f.Run != want || f.Path != filepath.Join(root, want) {
			t.Errorf("run %q at %s, want %q", f.Run, f.Path, want)
		}
	}
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFolder(file, time.Now()); err == nil {
		t.Error("made a run folder in a file")
	}
}

func TestAttemptSavesTheScenarioWhereTheLoaderExpectsIt(t *testing.T) {
	f, err := NewFolder(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	all, err := verdict.Scenarios().Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		dir, err := f.Attempt(s, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Relative(dir); got != s.Name+"/attempt-2" {
			t.Errorf("attempt at %s", got)
		}
		saved, err := verdict.Scenarios().LoadRecorded(ScenarioFile(dir, s.Name))
		if err != nil {
			t.Error(err)
		}
		if string(saved.Text) != string(s.Text) {
			t.Errorf("%s was not saved as it stands", s.Name)
		}
	}
}

func TestLatestIsTheNewestRunWithReports(t *testing.T) {
	root := t.TempDir()
	for _, started := range []time.Time{time.Unix(1e9, 0), time.Unix(2e9, 0)} {
		f, err := NewFolder(root, started)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Write(New(f, Handler{Name: "builtin"}, scenarios.Fast, nil)); err != nil {
			t.Fatal(err)
		}
		if link, err := os.Readlink(filepath.Join(root, Latest)); err != nil || link != f.Run {
			t.Errorf("latest is %q (%v), want %q", link, err, f.Run)
		}
		for _, name := range []string{YAMLFile, JUnitFile} {
			if _, err := os.Stat(filepath.Join(root, Latest, name)); err != nil {
				t.Error(err)
			}
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 3 {
		t.Errorf("left behind: %v (%v)", entries, err)
	}
}
