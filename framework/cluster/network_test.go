package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// onANode runs a script in its own network namespace.
func onANode(t *testing.T, script string) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace of its own needs root")
	}
	for _, program := range []string{"unshare", "ip", "iptables", "ip6tables", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the node's script needs %s: %v", program, err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "unshare", "--net", "bash", "-ec", script).CombinedOutput()
	return string(out), err
}

func TestWiringConnectsPodsThatWereCutOff(t *testing.T) {
	one, other := corev1.Pod{Status: corev1.PodStatus{PodIP: "10.244.1.2"}}, corev1.Pod{Status: corev1.PodStatus{PodIP: "10.244.1.3"}}
	out, err := onANode(t, "iptables -w -A FORWARD -s 10.244.1.4 -m comment --comment mine -j DROP; iptables -w -I "+cutOffRule(one)+"; iptables -w -I "+cutOffRule(other)+
		"\n"+reconnectAll+reconnectAll+"iptables -w -S FORWARD")
	if err != nil || strings.Contains(out, cutOffComment) || !strings.Contains(out, "mine") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Nothing answers behind the node's eth0.
func TestConfinedNodeReachesItsNetworksOnly(t *testing.T) {
	const node = `
ip link set lo up; ip link add eth0 type veth peer name beyond; ip address add 172.18.0.5/16 dev eth0; ip link set beyond up; ip link set eth0 up
ip route add default via 172.18.0.1
# As Docker has it in its containers: its resolver in place of the host's.
iptables -w -t nat -A OUTPUT -d 172.18.0.1 -p udp --dport 53 -j DNAT --to-destination 127.0.0.11:47057
`
	for name, c := range map[string]struct {
		to      string
		dropped bool
	}{
		"another node":       {to: "172.18.0.6/4567"},
		"a pod":              {to: "10.244.3.2/53"},
		"Docker's resolver":  {to: "172.18.0.1/53"},
		"a service":          {to: "10.96.0.10/53", dropped: true},
		"a public resolver":  {to: "198.51.100.53/53", dropped: true},
		"the link's gateway": {to: "172.18.0.1/4567"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := onANode(t, node+confine([]string{"172.18.0.0/16"})+"echo > /dev/udp/"+c.to)
			dropped := strings.Contains(out, "Operation not permitted")
			if (err != nil && !dropped) || dropped != c.dropped {
				t.Errorf("dropped: %v, want %v: %v\n%s", dropped, c.dropped, err, out)
			}
		})
	}
}

// A pod's address has a route as long as the pod runs. What is sent to it afterwards must not leave the node, and connection
// tracking must know of it as before.
func TestPacketsToPodsThatHaveEndedStayOnTheNode(t *testing.T) {
	const node = `
ip link set lo up; ip link add eth0 type veth peer name beyond; ip address add 172.18.0.5/16 dev eth0; ip link set beyond up; ip link set eth0 up
ip route add default via 172.18.0.1; ip neighbour add 172.18.0.1 lladdr 02:00:00:00:00:09 dev eth0
ip link add pod type veth peer name other; ip link set pod up; ip link set other up; ip route add 10.244.1.7 dev pod; ip neighbour add 10.244.1.7 lladdr 02:00:00:00:00:07 dev pod
for device in eth0 pod spotdrill-sink; do iptables -w -t mangle -A POSTROUTING -o $device -p udp; done
`
	for name, c := range map[string]struct{ script, to, by string }{
		"a pod that runs":            {sink + sink, "10.244.1.7", "pod"},
		"a pod that has ended":       {sink, "10.244.1.8", "spotdrill-sink"},
		"a pod of no node":           {sink, "10.244.99.8", "spotdrill-sink"},
		"another node":               {sink, "172.18.0.1", "eth0"},
		"an ended pod, without this": {"", "10.244.1.8", "eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := onANode(t, node+c.script+"echo > /dev/udp/"+c.to+"/53; iptables -w -t mangle -S -v")
			if err != nil || !regexp.MustCompile("-o "+c.by+" -p udp -c 1 ").MatchString(out) {
				t.Errorf("want one packet by %s: %v\n%s", c.by, err, out)
			}
		})
	}
}

// Those that come while others get their routes get theirs together, and each gets its own error.
func TestNodesThatJoinAtOnceGetTheirRoutesTogether(t *testing.T) {
	var n newcomers
	var mu sync.Mutex
	var batches [][]string
	add := func(nodes []string) map[string]error {
		time.Sleep(500 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(nodes)
		batches = append(batches, nodes)
		return map[string]error{"worker-3": errors.New("it does not run any more")}
	}
	errs := make([]error, 5)
	var joined sync.WaitGroup
	for i := range errs {
		joined.Go(func() {
			time.Sleep(time.Duration(i) * 20 * time.Millisecond)
			errs[i] = n.join(fmt.Sprintf("worker-%d", i), add)
		})
	}
	joined.Wait()
	if want := [][]string{{"worker-0"}, {"worker-1", "worker-2", "worker-3", "worker-4"}}; !slices.EqualFunc(batches, want, slices.Equal) {
		t.Errorf("routes of %v, want %v", batches, want)
	}
	for i, err := range errs {
		if (err != nil) != (i == 3) {
			t.Errorf("worker-%d: %v", i, err)
		}
	}
	if err := n.join("worker-3", func([]string) map[string]error { return nil }); err != nil {
		t.Errorf("when it joins again: %v", err)
	}
}
