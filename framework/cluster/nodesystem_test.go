package cluster

import (
	"os/exec"
	"strings"
	"testing"
)

// A pulled image may lack what a shutdown needs; the drills that shut a node down are then skipped with that reason.
func TestWhatTheNodesImageHas(t *testing.T) {
	const built = "system Debian GNU/Linux 12 (bookworm)\nsystemd 252\ncontainerd v2.4.2\nrunc 1.1.5\nGOGC 400\nconntrack /usr/sbin/conntrack\nnft /usr/sbin/nft\nipvsadm \nbusctl /usr/bin/busctl\nD-Bus /usr/bin/dbus-daemon\nsystemd-logind /lib/systemd/systemd-logind\n"
	for name, c := range map[string]struct{ printed, words, noShutdown string }{
		"built": {built, "Debian GNU/Linux 12 (bookworm), systemd 252, containerd v2.4.2, runc 1.1.5, GOGC 400, without ipvsadm", ""},
		"pulled, without D-Bus": {
			strings.NewReplacer("D-Bus /usr/bin/dbus-daemon", "D-Bus ", "systemd 252", "systemd 257", "12 (bookworm)", "13 (trixie)").Replace(built),
			"Debian GNU/Linux 13 (trixie), systemd 257, containerd v2.4.2, runc 1.1.5, GOGC 400, without ipvsadm and D-Bus", "has no D-Bus,",
		},
		"nothing of all that": {"system Other\n", "Other, without conntrack and nft and ipvsadm and busctl and D-Bus and systemd-logind and GOGC", "has no busctl and no D-Bus and no systemd-logind,"},
	} {
		got := nodeSystemIn(c.printed)
		if got.Words != c.words || (got.NoShutdown == "") != (c.noShutdown == "") || !strings.Contains(got.NoShutdown, c.noShutdown) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// It runs on any Linux, and finds nothing that is not there.
func TestReadingWhatAnImageHas(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "sh", "-c", readNodeSystem).Output()
	if err != nil {
		t.Skipf("this host has no os-release: %v", err)
	}
	if got := nodeSystemIn(string(out)); got.Words == "" || strings.Contains(got.Words, "GOGC 400") {
		t.Errorf("%+v from\n%s", got, out)
	}
}
