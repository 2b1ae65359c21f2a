package engine

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestContainersConf(t *testing.T) {
	for name, x := range map[string]struct {
		host podmanHost
		want string
	}{
		"a host that needs nothing": {podmanHost{cgroupVersion: 2, mayRaiseLimits: true, maxFiles: 1024, maxProcesses: 1024}, ""},
		"limits may not be raised": {
			podmanHost{cgroupVersion: 2, maxFiles: 20000, maxProcesses: 32768},
			"[containers]\ndefault_ulimits = [\"nofile=20000:20000\", \"nproc=32768:32768\"]\n",
		},
		"no limits at all": {
			podmanHost{cgroupVersion: 2, maxFiles: 1<<64 - 1, maxProcesses: 1<<64 - 1},
			"[containers]\ndefault_ulimits = [\"nofile=1048576:1048576\", \"nproc=1048576:1048576\"]\n",
		},
		"cgroup v1": {
			podmanHost{cgroupVersion: 1, mayRaiseLimits: true},
			"[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, _ := strings.Cut(containersConf(x.host), "\n")
			if got != x.want {
				t.Errorf("got\n%swant\n%s", got, x.want)
			}
		})
	}
}

func TestDebianLike(t *testing.T) {
	for release, want := range map[string]bool{
		"PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n":   true,
		"NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n":       true,
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n":          true,
		"NAME=\"Fedora Linux\"\nID=fedora\nVARIANT=debian\n": false,
		"": false,
	} {
		if got := debianLike(release); got != want {
			t.Errorf("%q: got %v", release, got)
		}
	}
}

func TestHasCapability(t *testing.T) {
	status := "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t000001fffeffffff\nCapBnd:\t000001ffffffffff\n"
	if hasCapability(status, capSysResource) {
		t.Error("CAP_SYS_RESOURCE is not effective there")
	}
	if !hasCapability(status, capSysResource-1) {
		t.Error("the capability before it is")
	}
}

func TestParseNetwork(t *testing.T) {
	for name, x := range map[string]struct {
		inspected string
		want      Network
	}{
		"podman": {
			`[{"name":"drill","id":"967153bb8ba0ab","driver":"bridge","network_interface":"podman1","subnets":[{"subnet":"10.89.0.0/24","gateway":"10.89.0.1"}],"labels":{"a":"b"},"ipam_options":{"driver":"host-local"}}]`,
			Network{Name: "drill", Labels: map[string]string{"a": "b"}, Bridge: "podman1", Subnets: []string{"10.89.0.0/24"}},
		},
		"docker": {
			`[{"Name":"drill","Id":"0123456789abcdef","Driver":"bridge","IPAM":{"Driver":"default","Config":[{"Subnet":"172.18.0.0/16","Gateway":"172.18.0.1"},{"Subnet":"fc00:1::/64"}]},"Options":{},"Labels":{"a":"b"}}]`,
			Network{Name: "drill", Labels: map[string]string{"a": "b"}, Bridge: "br-0123456789ab", Subnets: []string{"172.18.0.0/16", "fc00:1::/64"}},
		},
		"docker with a bridge of its own name": {
			`[{"Name":"drill","Id":"0123456789abcdef","Options":{"com.docker.network.bridge.name":"drill0"}}]`,
			Network{Name: "drill", Bridge: "drill0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseNetwork([]byte(x.inspected))
			if err != nil || !reflect.DeepEqual(*got, x.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, x.want)
			}
		})
	}
	if _, err := parseNetwork([]byte("[]")); err == nil {
		t.Error("no network is no error")
	}
}

func TestOwnRules(t *testing.T) {
	saved := `-P FORWARD ACCEPT
-A FORWARD -m comment --comment "netavark firewall plugin rules" -j NETAVARK_FORWARD
-A FORWARD -i podman1 ! -o podman1 -m comment --comment spotdrill-drill -j DROP
-A FORWARD -i podman2 ! -o podman2 -m comment --comment "spotdrill-drill-2" -j DROP
`
	want := []rule{{"mangle", "FORWARD", confinement("drill", "podman1", "FORWARD", "")[0].match}}
	if got := ownRules(saved, "mangle", "drill"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("one\n\ntwo \nthree\n\n", 2); got != "two; three" {
		t.Errorf("got %q", got)
	}
	if got := lastLines("\n", 2); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestAddressesOfTheContainersThatRun(t *testing.T) {
	got := runningIPs("node true 10.89.0.2\n/docker-node true 10.89.0.3\nkilled false \nelsewhere true \n")
	if want := map[string]string{"node": "10.89.0.2", "docker-node": "10.89.0.3"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// LocalStack logs to standard error only; why it failed must be in an error.
func TestLogsOfBothStreams(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	for script, want := range map[string]string{
		`echo "$@"; echo killed >&2`:            "logs --tail 5 c\nkilled",
		"echo no such container: c >&2; exit 1": "exit status 1: no such container: c",
	} {
		if err := os.WriteFile(filepath.Join(folder, "docker"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		printed, err := (&Engine{Name: docker}).Logs(t.Context(), "c", 5)
		if err != nil {
			printed = err.Error()
		}
		if !strings.HasSuffix(printed, want) || (err != nil) != strings.HasSuffix(script, "exit 1") {
			t.Errorf("%s: %q, %v; want %q", script, printed, err, want)
		}
	}
}
