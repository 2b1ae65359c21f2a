package cluster

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

func TestAReloadIsTakenBack(t *testing.T) {
	const own = ".:53 {\n    errors\n    health {\n        lameduck 5s\n    }\n    reload\n}\n"
	changed := own + reloadBlock
	if _, err := coredns.Parse(changed); err != nil {
		t.Errorf("the changed Corefile is invalid: %v", err)
	}
	for _, text := range []string{own, changed, changed + reloadBlock} {
		if got := withoutReload(text); got != own {
			t.Errorf("got %q", got)
		}
	}
}

func TestBeginsReload(t *testing.T) {
	for line, want := range map[string]bool{
		"[INFO] Reloading": true, "2026-01-02T03:04:05.678Z [INFO] Reloading": true,
		"[INFO] Reloading complete": false, "[INFO] plugin/reload: Running configuration SHA512 = 1": false, "": false,
	} {
		if got := beginsReload(line); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
}
