package engine

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A host of the test's own with a bridge, a container on it, and a way out on which nothing answers.
const aHost = `
ip link set lo up; ip link add br9 type bridge; ip address add 10.89.9.1/24 dev br9; ip link set br9 up
ip link add out type veth peer name beyond; ip address add 192.0.2.1/24 dev out; ip link set out up; ip link set beyond up
ip route add default via 192.0.2.254; ip neighbour add 192.0.2.254 lladdr 02:00:00:00:00:09 dev out; sysctl -qw net.ipv4.ip_forward=1
unshare --net sleep 60 & box=$!; trap 'kill $box' EXIT
until [ "$(readlink /proc/$box/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add eth0 netns $box type veth peer name port; ip link set port master br9; ip link set port up
in_box() { nsenter --net=/proc/$box/ns/net "$@"; }
in_box ip address add 10.89.9.2/24 dev eth0; in_box ip link set eth0 up; in_box ip route add default via 10.89.9.1
`

// answered has the container answer this host, which fails the script if no answer comes.
const answered = `
in_box python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("10.89.9.2", 7)); s.sendto(*s.recvfrom(99))' &
python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.2)
for attempt in range(50):
    s.sendto(b"asked", ("10.89.9.2", 7))
    try: s.recvfrom(99); break
    except OSError: pass
else: raise SystemExit("no answer")'
`

func TestRulesDropWhatLeavesTheNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a network namespace of its own needs root")
	}
	for _, program := range []string{"unshare", "nsenter", "ip", "iptables", "bash", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("it needs %s: %v", program, err)
		}
	}
	send := func(to string) string { return "in_box bash -c 'echo > /dev/udp/" + to + "' || true\n" }
	for name, c := range map[string]struct {
		subnet, script string
		forward, input int
	}{
		"anywhere":                      {"10.89.9.0/24", send("203.0.113.9/53"), 1, 0},
		"a port of this host":           {"10.89.9.0/24", send("10.89.9.1/4566"), 0, 1},
		"another address of this host":  {"10.89.9.0/24", send("192.0.2.1/53"), 0, 1},
		"the engine's resolver":         {"10.89.9.0/24", send("10.89.9.1/53"), 0, 0},
		"Docker has no resolver here":   {"", send("10.89.9.1/53"), 0, 1},
		"an answer to this host":        {"10.89.9.0/24", answered, 0, 0},
		"what the set-up sends":         {"10.89.9.0/24", "in_box python3 -c '" + strays + "'\n", 1, 1},
		"what the set-up sends, Docker": {"", "in_box python3 -c '" + strays + "'\n", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := ""
			for _, r := range confinement("net9", "br9", "FORWARD", c.subnet) {
				rules += "iptables -w " + strings.Join(r.words("-I"), " ") + "\n"
			}
			out, err := exec.CommandContext(t.Context(), "unshare", "--net", "bash", "-ec", aHost+rules+c.script+"iptables -w -t mangle -S -v").Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := droppedIn(string(out), "net9"); got["FORWARD"] != c.forward || got["INPUT"] != c.input {
				t.Errorf("dropped %v, want %d on their way out and %d to this host\n%s", got, c.forward, c.input, out)
			}
		})
	}
}
