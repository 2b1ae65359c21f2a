package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// hostile is a folder as somebody could have packed it, and a file outside of it.
func hostile(t *testing.T) (folder, outside string) {
	t.Helper()
	parent := t.TempDir()
	folder, outside = filepath.Join(parent, "run"), filepath.Join(parent, "outside")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(folder, "below"), 0o755),
		os.WriteFile(outside, []byte("mine"), 0o600),
		os.WriteFile(filepath.Join(folder, "good"), []byte("text"), 0o600),
		os.WriteFile(filepath.Join(folder, "below", "good"), []byte("text"), 0o600),
		os.Symlink(outside, filepath.Join(folder, "link")),
		os.Symlink("good", filepath.Join(folder, "inner")),
		os.Symlink(parent, filepath.Join(folder, "up")),
		os.Symlink("/dev/zero", filepath.Join(folder, "zero")),
		unix.Mkfifo(filepath.Join(folder, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder, outside
}

func TestOnlyRegularFilesOfTheFolderAreRead(t *testing.T) {
	t.Parallel()
	folder, _ := hostile(t)
	for path, want := range map[string]string{
		"good": "text", "below/good": "text", "link": "", "inner": "", "up/outside": "", "zero": "", "pipe": "", "below": "", "../outside": "", "/dev/zero": "", "none": "",
	} {
		if got, err := Read(folder, path, 4); string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := Read(folder, "none", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if got, err := Read(folder, "good", 3); !errors.Is(err, ErrTooLarge) || len(got) > 3 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAFileIsReplacedAndNeverFollowed(t *testing.T) {
	t.Parallel()
	folder, outside := hostile(t)
	text := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	for _, path := range []string{"link", "pipe", "zero", "good", "fresh"} {
		if err := Replace(folder, path, text); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if got, err := Read(folder, path, 10); err != nil || string(got) != "new" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	full := errors.New("no space left on device")
	if err := Replace(folder, "good", func(w io.Writer) error { _, _ = io.WriteString(w, "ha"); return full }); !errors.Is(err, full) {
		t.Error(err)
	}
	if got, err := Read(folder, "good", 10); err != nil || string(got) != "new" {
		t.Errorf("after an error: %q, %v", got, err)
	}
	if err := Replace(folder, "up/outside", text); err == nil {
		t.Error("it was written outside of the folder")
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "mine" {
		t.Errorf("outside: %q, %v", got, err)
	}
}

func TestOnlyRegularFilesAreCopied(t *testing.T) {
	t.Parallel()
	folder, _ := hostile(t)
	if err := Copy(t.Context(), t.TempDir(), folder); !errors.Is(err, ErrNotRegular) {
		t.Errorf("error %v", err)
	}
	to := t.TempDir()
	if err := Copy(t.Context(), to, filepath.Join(folder, "below")); err != nil {
		t.Error(err)
	}
	if got, err := Read(to, "good", 10); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if err := Copy(t.Context(), to, filepath.Join(folder, "below")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v", err)
	}
}
