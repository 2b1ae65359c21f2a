package nodeimages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A pod whose image is one file has no dynamic linker: the kernel reports "no such file", of a
// file that is there.
func TestOnlyAStaticBinaryIsLoaded(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"static":  {want: ""},
		"dynamic": {flags: []string{"-buildmode=pie"}, want: "linked dynamically"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			build := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", path}, c.flags...), source)...)
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			err := Static(path)
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	for _, want := range []string{"amd64", "arm64"} {
		path := filepath.Join(dir, want)
		build := exec.CommandContext(t.Context(), "go", "build", "-o", path, source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+want)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		if got, err := Architecture(path); err != nil || got != want {
			t.Errorf("architecture %q, error %v, want %q", got, err, want)
		}
	}
	for name, c := range map[string]struct{ machine, architecture, want string }{
		"the same":                 {"x86_64", "amd64", ""},
		"the same on ARM":          {"aarch64", "arm64", ""},
		"a binary for other nodes": {"x86_64", "arm64", "GOARCH=amd64, and give it with --binary"},
		"nodes of neither":         {"riscv64", "amd64", "the nodes are riscv64"},
	} {
		if err := runsOn(c.machine, c.architecture, "spotdrill"); (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := Static(source); err == nil || !strings.Contains(err.Error(), "no Linux binary") {
		t.Errorf("a file of text: %v", err)
	}
}

func TestAnImagesDigestInTheTableOfCtr(t *testing.T) {
	const ref = "localhost/spotdrill/spotdrill:0123456789ab"
	const header = "REF TYPE DIGEST SIZE PLATFORMS LABELS\n"
	for name, c := range map[string]struct {
		table, want string
		ok          bool
	}{
		"there":            {header + ref + " application/vnd.docker.distribution.manifest.v2+json sha256:4e10 102.7 MiB linux/amd64 io.cri-containerd.image=managed\n", "sha256:4e10", true},
		"not there":        {header, "", false},
		"another image":    {header + ref + "0 type sha256:4e10 1 MiB\n", "", false},
		"nothing at all":   {"", "", false},
		"a line cut short": {header + ref + " type", "", false},
	} {
		if got, ok := digestIn(c.table, ref); got != c.want || ok != c.ok {
			t.Errorf("%s: digestIn() = %q, %v, want %q, %v", name, got, ok, c.want, c.ok)
		}
	}
}
