package system

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// The folder may hold other files: only what is listed is removed.
func TestCleanRemovesWhatItLists(t *testing.T) {
	dir := t.TempDir()
	images, demo, theirs := filepath.Join(dir, "images"), filepath.Join(dir, "demo"), filepath.Join(dir, "thesis")
	for _, folder := range []string{images, demo, theirs} {
		if err := os.MkdirAll(filepath.Join(folder, "deep"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SPOTDRILL_CACHE", dir)
	files, err := cachedFiles()
	if err != nil {
		t.Fatal(err)
	}
	k := Cache{Files: files}
	if got := k.String(); got != "files "+images+"\nfiles "+demo+"\n" {
		t.Errorf("lists %q", got)
	}
	if err := k.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exists(images) || exists(demo) || !exists(theirs) {
		t.Error("removed something other than what it listed")
	}
}

func TestABinaryThatNodesCannotRunIsFound(t *testing.T) {
	text := filepath.Join(t.TempDir(), "spotdrill")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, binary := range []string{text, filepath.Join(t.TempDir(), "none")} {
		if f := examineBinary(binary); f.State != engine.Missing || f.Fix != "make build" {
			t.Errorf("%s: %+v", binary, f)
		}
	}
	// The shell of every system is linked to a C library.
	if f := examineBinary("/bin/sh"); f.State != engine.Missing {
		t.Errorf("/bin/sh: %+v", f)
	}
}
