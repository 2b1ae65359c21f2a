package main

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/engine"
)

func TestDoctorPrintsFixes(t *testing.T) {
	found := []engine.Prerequisite{
		{What: "system", State: engine.OK, Detail: "linux/amd64", Fix: "nothing to fix"},
		{What: "inotify instances", State: engine.Missing, Detail: "128, and 512 are needed", Fix: "sudo sysctl -w fs.inotify.max_user_instances=1024"},
		{What: "root", State: engine.Warning, Detail: "not root"},
	}
	want := `ok        system: linux/amd64
missing   inotify instances: 128, and 512 are needed
            sudo sysctl -w fs.inotify.max_user_instances=1024
warning   root: not root
`
	if got := prerequisites(found); got != want {
		t.Errorf("printed\n%s", got)
	}
	if err := missingError(found); exitCode(err) != exitFailed || err.Error() != "no drill can run here; missing: inotify instances" {
		t.Errorf("%v", err)
	}
	if err := missingError(found[2:]); err != nil {
		t.Errorf("a warning counts as missing: %v", err)
	}
}
