package engine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const containerID = "87ad2a9e241f70085ac61051be05a21d4d27485aed1b2b52a25f44b814026d77"

func TestTheParentOfAContainersGroup(t *testing.T) {
	v1, v2 := cpuTree{line: "cpu"}, cpuTree{}
	for _, c := range []struct {
		name       string
		tree       cpuTree
		membership string
		want       string
	}{
		{"Podman with cgroupfs, v1 next to an empty v2", v1, "5:memory:/a/libpod-ID\n1:cpu:/libpod_parent/libpod-ID/init.scope\n0::/b/libpod-ID\n", "/libpod_parent"},
		{"Docker with cgroupfs, v1, two controllers in one hierarchy", v1, "4:cpuset:/x/ID\n3:cpu,cpuacct:/docker/ID/init.scope\n", "/docker"},
		{"Docker with systemd, v2", v2, "0::/system.slice/docker-ID.scope/init.scope\n", "/system.slice"},
		{"Podman with systemd, v2", v2, "0::/machine.slice/libpod-ID.scope/container/init.scope\n", "/machine.slice"},
		{
			"Podman without root, v2", v2, "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container\n",
			"/user.slice/user-1000.slice/user@1000.service/user.slice",
		},
		{"a container at the root", v2, "0::/docker-ID.scope\n", "/"},
		{"another process with that number", v2, "0::/user.slice/session-1.scope\n", ""},
		{"no such process", v2, "", ""},
		{"no CPU controller", v1, "4:cpuset:/x/ID\n0::/x/ID\n", ""},
	} {
		if got := c.tree.parentOf(strings.ReplaceAll(c.membership, "ID", containerID), containerID); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// groups makes a tree of control groups with one group of that weight.
func groups(t *testing.T, version int, group string, weight int) (tree cpuTree, file string) {
	t.Helper()
	mount := t.TempDir()
	dir, name := filepath.Join(mount, "cpu"), "cpu.shares"
	if version == 2 {
		dir, name = mount, "cpu.weight"
		write(t, filepath.Join(mount, "cgroup.controllers"), "cpu memory")
	}
	file = filepath.Join(dir, group, name)
	write(t, file, strconv.Itoa(weight)+"\n")
	tree, err := findCPUTree(mount)
	if err != nil {
		t.Fatal(err)
	}
	return tree, file
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantWeight(t *testing.T, file string, want int) {
	t.Helper()
	if got, err := readNumber(file); err != nil || got != want {
		t.Errorf("%s is %d (%v), want %d", filepath.Base(file), got, err, want)
	}
}

func TestTheEnginesGroupIsRaisedAndPutBack(t *testing.T) {
	for _, c := range []struct {
		version, was, raised int
		words                string
	}{
		{1, 1024, 8192, "/libpod_parent 8192 (was 1024)"},
		{1, 2048, 8192, "/libpod_parent 8192 (was 2048)"},
		{2, 100, 800, "/libpod_parent 800 (was 100)"},
	} {
		tree, file := groups(t, c.version, "libpod_parent", c.was)
		kept := filepath.Join(t.TempDir(), "state", RaisedWeights)
		for range 2 { // the second time, it is raised already
			if got := tree.raiseInWords("/libpod_parent", kept); got != c.words {
				t.Errorf("%q, want %q", got, c.words)
			}
			wantWeight(t, file, c.raised)
		}
		for range 2 { // the second time, there is nothing to put back
			if err := lower(kept); err != nil {
				t.Error(err)
			}
			wantWeight(t, file, c.was)
		}
	}
}

func TestAWeightIsPutBackToTheDefaultIfTheFormerOneIsForgotten(t *testing.T) {
	tree, file := groups(t, 1, "docker", 8192)
	kept := filepath.Join(t.TempDir(), RaisedWeights)
	if _, err := tree.raise("/docker", kept); err != nil {
		t.Fatal(err)
	}
	if err := lower(kept); err != nil {
		t.Fatal(err)
	}
	wantWeight(t, file, 1024)
}

// Another version raised it to another weight, or the host reset it.
func TestTheFirstWeightIsPutBack(t *testing.T) {
	tree, file := groups(t, 1, "docker", 1024)
	kept := filepath.Join(t.TempDir(), RaisedWeights)
	for _, now := range []int{1024, 65536} {
		if err := writeNumber(file, now); err != nil {
			t.Fatal(err)
		}
		if was, err := tree.raise("/docker", kept); err != nil || was != 1024 {
			t.Errorf("from %d: was %d (%v)", now, was, err)
		}
	}
	if err := lower(kept); err != nil {
		t.Fatal(err)
	}
	wantWeight(t, file, 1024)
}

func TestAGroupThatIsGoneHasNothingToPutBack(t *testing.T) {
	tree, file := groups(t, 2, "machine.slice", 100)
	kept := filepath.Join(t.TempDir(), RaisedWeights)
	if _, err := tree.raise("/machine.slice", kept); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if err := lower(kept); err != nil {
		t.Error(err)
	}
	if exists(kept) {
		t.Error("its weight is still kept")
	}
}

func TestAGroupThatIsNotRaisedSaysWhy(t *testing.T) {
	for _, c := range []struct{ group, want string }{
		{"/", "/, not raised: the root of all groups has no weight"},
		{"/system.slice", "/system.slice, not raised: it also has the services of this host"},
		{"/user.slice", "/user.slice, not raised: it has no CPU controller"},
	} {
		tree, file := groups(t, 2, "system.slice", 100)
		kept := filepath.Join(t.TempDir(), RaisedWeights)
		if got := tree.raiseInWords(c.group, kept); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		wantWeight(t, file, 100)
		if exists(kept) {
			t.Errorf("%s: a weight is kept that was not changed", c.group)
		}
	}
}

func TestErrorsOfAGroupsFileInWords(t *testing.T) {
	for err, want := range map[error]string{
		&os.PathError{Op: "open", Path: "cpu.weight", Err: os.ErrPermission}: "that needs root on the engine's own host",
		&os.PathError{Op: "open", Path: "cpu.weight", Err: os.ErrNotExist}:   "it has no CPU controller",
	} {
		if got := inWords(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAHostWithoutCPUController(t *testing.T) {
	if _, err := findCPUTree(t.TempDir()); err == nil {
		t.Error("a folder without control groups has a CPU controller")
	}
}
