package engine

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A bridge of the test's own, on which nothing is sent.
func TestBridgeKeepsItsAddressWhenAPortGoes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a bridge needs root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("making a bridge needs the command ip")
	}
	ip := func(args string) {
		t.Helper()
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	for name, keep := range map[string]bool{"as Linux has it": false, "as it is to be": true} {
		t.Run(name, func(t *testing.T) {
			ip("link add sdtest0 type bridge")
			defer ip("link del sdtest0")
			ip("link add sdtest1 address 02:00:00:00:00:01 type veth peer name sdtest2")
			ip("link set sdtest1 master sdtest0")
			if keep {
				if err := keepAddress(t.Context(), "sdtest0"); err != nil {
					t.Fatal(err)
				}
			}
			before, err := net.InterfaceByName("sdtest0")
			if err != nil {
				t.Fatal(err)
			}
			ip("link del sdtest1")
			after, err := net.InterfaceByName("sdtest0")
			if err != nil {
				t.Fatal(err)
			}
			if kept := before.HardwareAddr.String() == after.HardwareAddr.String(); kept != keep {
				t.Errorf("%s before, %s after", before.HardwareAddr, after.HardwareAddr)
			}
		})
	}
	if err := keepAddress(t.Context(), "sdtest0"); err != nil {
		t.Errorf("a bridge that is not there yet: %v", err)
	}
}
