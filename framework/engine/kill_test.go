package engine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFreezerIn(t *testing.T) {
	for text, want := range map[string]string{
		"9:name=systemd:/\n6:freezer:/libpod_parent/libpod-7c\n5:devices:/a\n": "/sys/fs/cgroup/freezer/libpod_parent/libpod-7c",
		"6:freezer:/\n":                      "",
		"0::/system.slice/docker-7c.scope\n": "",
		"":                                   "",
	} {
		if got := freezerIn(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Pods are thawed, the container itself is not: somebody paused it.
func TestThaw(t *testing.T) {
	container := t.TempDir()
	for folder, state := range map[string]string{".": "FROZEN", "kubelet.slice": "THAWED", "kubelet.slice/pod-a": "FROZEN", "kubelet.slice/pod-b": "FREEZING"} {
		if err := os.MkdirAll(filepath.Join(container, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(container, folder, freezerState), []byte(state+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	thaw(container)
	for folder, want := range map[string]string{".": "FROZEN\n", "kubelet.slice": "THAWED\n", "kubelet.slice/pod-a": "THAWED", "kubelet.slice/pod-b": "THAWED"} {
		got, err := os.ReadFile(filepath.Join(container, folder, freezerState))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", folder, got, err, want)
		}
	}
}
