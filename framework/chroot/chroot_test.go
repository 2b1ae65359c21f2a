package chroot

import (
	"os"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("chroot(2) needs root")
	}
	if err := Run(t.Context(), "/", strings.NewReader("exit 0"), "/bin/sh"); err != nil {
		t.Error(err)
	}
	err := Run(t.Context(), "/", strings.NewReader("pwd; echo no such table >&2; exit 3"), "/bin/sh", "-s")
	if err == nil || err.Error() != "sh -s: exit status 3: /\nno such table\n" {
		t.Errorf("got %v", err)
	}
	if err := Run(t.Context(), t.TempDir(), nil, "/bin/sh"); err == nil {
		t.Error("it ran a program of another root")
	}
}
