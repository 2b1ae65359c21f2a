package rundelay

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSchedstat(t *testing.T) {
	for text, want := range map[string]struct {
		ran, waited time.Duration
		ok          bool
	}{
		"1698471781 2392352450 97222\n": {1698471781, 2392352450, true},
		"0 0 0\n":                       {0, 0, true},
		"":                              {},
		"12 13\n":                       {},
		"12 x 3\n":                      {},
	} {
		ran, waited, err := parseSchedstat([]byte(text))
		if (err == nil) != want.ok || want.ok && (ran != want.ran || waited != want.waited) {
			t.Errorf("%q: %d, %d, %v", text, ran, waited, err)
		}
	}
}

func TestThePodOfAProcess(t *testing.T) {
	for groups, want := range map[string]string{
		// cgroup v1, systemd driver, in a node that is a container
		"1:cpu:/libpod_parent/libpod-69/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podb9cc1021_f7aa_45ad_a2ee_f2bd33c020de.slice/cri-containerd-6d46.scope\n": "b9cc1021-f7aa-45ad-a2ee-f2bd33c020de",
		// cgroup v2, systemd driver, guaranteed: no class in between
		"0::/kubepods.slice/kubepods-pod067e3964_6bfc_4921_a0e2_a11851bb608e.slice/cri-containerd-3c.scope\n": "067e3964-6bfc-4921-a0e2-a11851bb608e",
		// cgroupfs driver
		"0::/kubepods/besteffort/pod067e3964-6bfc-4921-a0e2-a11851bb608e/3c\n": "067e3964-6bfc-4921-a0e2-a11851bb608e",
		"0::/user.slice/session-1.scope\n":                                     "",
		"0::/libpod_parent/libpod-69/kubelet.slice/kubelet.service\n":          "",
		"0::/machine.slice/libpod-pod.slice/x\n":                               "",
	} {
		if got := podOf([]byte(groups)); got != want {
			t.Errorf("%s: %q, want %q", groups, got, want)
		}
	}
}

func TestReceiveErrors(t *testing.T) {
	text := "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 1070529 2765 5257 1078898 5250 0\nUdpLite: InDatagrams RcvbufErrors\nUdpLite: 7 7\n"
	if n, err := parseReceiveErrors(text); n != 5250 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, broken := range []string{"", "Udp: InDatagrams\nUdp: 3\n", "Udp: RcvbufErrors\n", "Udp: InDatagrams RcvbufErrors\nUdp: 3\n"} {
		if n, err := parseReceiveErrors(broken); err == nil {
			t.Errorf("%q: %d and no error", broken, n)
		}
	}
}

func TestThrottled(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"usage_usec 5\nnr_throttled 1\nthrottled_usec 250000\n":  250 * time.Millisecond,
		"nr_periods 7\nnr_throttled 1\nthrottled_time 1000000\n": time.Millisecond,
		"usage_usec 5\n": 0,
	} {
		if got, err := parseThrottled(text); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestWhereTheCPULimitShows(t *testing.T) {
	for groups, want := range map[string]string{
		"0::/kubepods/x\n": "/cg/kubepods/x/cpu.stat",
		"4:memory:/m\n2:cpuacct:/a\n1:cpu:/kubepods/x\n0::/\n": "/cg/cpu/kubepods/x/cpu.stat /cg/cpu,cpuacct/kubepods/x/cpu.stat /cg/cpu.stat",
		"3:cpu,cpuacct:/kubepods/x\n":                          "/cg/cpu/kubepods/x/cpu.stat /cg/cpu,cpuacct/kubepods/x/cpu.stat",
		"nonsense\n":                                           "",
	} {
		if got := strings.Join(throttleFiles("/cg", []byte(groups)), " "); got != want {
			t.Errorf("%q: %s, want %s", groups, got, want)
		}
	}
}

// A container's processes are found when they start; the process that holds the pod's
// namespaces is left out, and so are processes of other pods and of none.
func TestTheProcessesOfPods(t *testing.T) {
	proc := t.TempDir()
	start := func(pid, command, uid string) {
		write(t, filepath.Join(proc, pid, "comm"), command+"\n")
		write(t, filepath.Join(proc, pid, "cgroup"), "0::/kubepods/burstable/pod"+uid+"/abc\n")
	}
	const dns, other = "b9cc1021-f7aa-45ad-a2ee-f2bd33c020de", "067e3964-6bfc-4921-a0e2-a11851bb608e"
	start("10", "pause", dns)
	start("11", "coredns", dns)
	start("12", "app", other)
	write(t, filepath.Join(proc, "13", "comm"), "sshd\n")
	write(t, filepath.Join(proc, "13", "cgroup"), "0::/user.slice\n")
	write(t, filepath.Join(proc, "meminfo"), "")

	pods := NewPods(proc)
	found := func(names map[string]string) []Process {
		got, err := pods.Find(names)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := found(nil); got != nil {
		t.Errorf("%v without a pod to watch", got)
	}
	names := map[string]string{dns: "kube-system/coredns-a"}
	if got, want := found(names), []Process{{11, "kube-system/coredns-a"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := os.RemoveAll(filepath.Join(proc, "11")); err != nil {
		t.Fatal(err)
	}
	start("14", "coredns", dns) // the container was started again
	if got, want := found(names), []Process{{14, "kube-system/coredns-a"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := NewPods(filepath.Join(proc, "none")).Find(names); err == nil {
		t.Error("no error without a proc file system")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The memory of a pod's processes is one figure, every ten seconds.
func TestMemory(t *testing.T) {
	sc := newScript(t)
	for pid, held := range map[string]string{"7": "2048 kB", "8": "1024 kB", "9": "many"} {
		write(t, filepath.Join(sc.proc, pid, "status"), "Name:\tx\nVmRSS:\t9999 kB\nRssAnon:\t"+held+"\n")
	}
	sc.found = []Process{{7, "handler"}, {8, "handler"}, {9, "dns"}, {10, "dns"}} // the tenth has ended
	for _, at := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, 11 * time.Second, 20 * time.Second} {
		if err := sc.s.look(at); err != nil {
			t.Fatal(err)
		}
	}
	want := []held{{"handler", time.Second, 3 << 20}, {"handler", 11 * time.Second, 3 << 20}}
	if !reflect.DeepEqual(sc.held, want) {
		t.Errorf("%+v, want %+v", sc.held, want)
	}
}

func TestAnonymous(t *testing.T) {
	for status, want := range map[string]int64{
		"RssAnon:\t     100 kB\n":        100 << 10,
		"RssFile: 1 kB\nRssAnon: 2 kB\n": 2 << 10,
		"RssAnon: x kB\n":                -1,
		"RssAnon:\n":                     -1,
		"":                               -1,
	} {
		proc := t.TempDir()
		write(t, filepath.Join(proc, "7", "status"), status)
		got, err := anonymous(proc, 7)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v; want %d", status, got, err, want)
		}
	}
}
