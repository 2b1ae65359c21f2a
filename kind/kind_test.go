package kind

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestRender(t *testing.T) {
	got, err := Render("localhost/spotdrill/node:tag", "/state", "iptables", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "cluster.yaml")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test ./kind -update writes it); got\n%s", golden, got)
	}

	var parsed v1alpha4.Cluster
	if err := yaml.UnmarshalStrict(got, &parsed); err != nil {
		t.Fatalf("kind cannot read it: %v", err)
	}
	if roles := len(parsed.Nodes); roles != 5 {
		t.Errorf("kind reads %d nodes", roles)
	}
}

// The time between two updates of kube-proxy's rules is part of the cluster: another one makes another.
func TestMinSyncPeriodIsThatOfTheMode(t *testing.T) {
	got, err := Render("image", "/state", "nftables", 3*time.Second, 0)
	if err != nil || !strings.Contains(string(got), "    nftables:\n      minSyncPeriod: 3s\n") {
		t.Errorf("%v, in\n%s", err, got)
	}
}

func TestMountedFilesAreAsConfigured(t *testing.T) {
	config, err := Render("image", "/state", "iptables", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name := range Mounted() {
		if !bytes.Contains(config, []byte("hostPath: /state/"+name+"\n")) {
			t.Errorf("no node mounts %s", name)
		}
	}
	if !strings.Contains(Mounted()["collector.conf"], "GOGC="+collector+"\n") {
		t.Errorf("collector.conf has another GOGC than %s", collector)
	}
}

func TestRenderWantsAllOfIt(t *testing.T) {
	for _, missing := range [][3]string{{"", "/state", "iptables"}, {"image", "", "iptables"}, {"image", "/state", ""}} {
		if _, err := Render(missing[0], missing[1], missing[2], 0, 0); err == nil {
			t.Errorf("%q is no error", missing)
		}
	}
}

// A spare worker has the labels of an instance only once it is one.
func TestASpareWorkerIsNoInstanceYet(t *testing.T) {
	got, err := Render("image", "/state", "iptables", 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	var parsed v1alpha4.Cluster
	if err := yaml.UnmarshalStrict(got, &parsed); err != nil {
		t.Fatalf("kind cannot read it: %v", err)
	}
	if len(parsed.Nodes) != 7 {
		t.Fatalf("kind reads %d nodes, want 5 and 2 spare ones", len(parsed.Nodes))
	}
	want := map[string]string{SpareLabel: "true", "spotdrill.dev/owned": "true"}
	for _, n := range parsed.Nodes[5:] {
		if n.Role != v1alpha4.WorkerRole || !maps.Equal(n.Labels, want) {
			t.Errorf("a spare worker is %s with labels %v, want a worker with %v", n.Role, n.Labels, want)
		}
	}
}
