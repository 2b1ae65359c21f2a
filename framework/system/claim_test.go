package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// A second claim is refused as long as the first one holds, and names its process.
func TestClaim(t *testing.T) {
	t.Setenv("SPOTDRILL_CACHE", t.TempDir())
	first, err := claimSystem("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claimSystem("a"); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("a second claim: %v", err)
	}
	other, err := claimSystem("b")
	if err != nil {
		t.Errorf("another cluster: %v", err)
	}
	for _, c := range []*claim{first, other} {
		if err := c.release(); err != nil {
			t.Error(err)
		}
	}
	again, err := claimSystem("a")
	if err != nil {
		t.Fatalf("after the first was released: %v", err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}

// After a run with sudo -E, the files are root's: doctor finds that before a run fails.
func TestACacheOfAnotherUser(t *testing.T) {
	for file, want := range map[string]engine.State{"": engine.OK, claims + "/spotdrill": engine.Missing, "kubeconfig/spotdrill.kubeconfig": engine.Missing} {
		dir := t.TempDir()
		t.Setenv("SPOTDRILL_CACHE", dir)
		const user = 54321
		if err := os.Chown(dir, user, user); err != nil {
			t.Skip("giving files to another user needs root")
		}
		if file != "" {
			folder := filepath.Join(dir, filepath.Dir(file))
			if err := errors.Join(os.Mkdir(folder, 0o755), os.Chown(folder, user, user), os.WriteFile(filepath.Join(dir, file), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		f := examineCache(user)
		if f.State != want || want == engine.Missing && (!strings.Contains(f.Detail, file) || !strings.Contains(f.Fix, "chown")) {
			t.Errorf("%q: %+v", file, f)
		}
		if f := examineCache(0); f.State != engine.OK {
			t.Errorf("root: %+v", f)
		}
	}
	if strings.Contains(buildAsRoot, "-E") {
		t.Error("doctor gives this user's cache to root")
	}
}

// A cache that cannot be made is found by doctor, too, and both name the way to choose another.
func TestACacheWhereNoFolderCanBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "spotdrill")} {
		t.Setenv("SPOTDRILL_CACHE", dir)
		f := examineCache(os.Geteuid())
		if f.State != engine.Missing || !strings.Contains(f.Detail, "cannot write to "+nearest(dir)) || !strings.Contains(f.Fix, "SPOTDRILL_CACHE") {
			t.Errorf("%s: %+v", dir, f)
		}
		if _, err := claimSystem("a"); err == nil || !strings.Contains(err.Error(), f.Fix) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
