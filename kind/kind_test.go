package kind

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func sample() Config {
	return Config{NodeImage: "localhost/spotdrill/node:tag", Kubernetes: "v1.37.2", CoreDNS: "v1.15.0", Mounts: "/state", ProxyMode: "iptables"}
}

func TestRender(t *testing.T) {
	got, err := sample().Render()
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
	c := sample()
	c.ProxyMode, c.MinSyncPeriod = "nftables", 3*time.Second
	got, err := c.Render()
	if err != nil || !strings.Contains(string(got), "    nftables:\n      minSyncPeriod: 3s\n") {
		t.Errorf("%v, in\n%s", err, got)
	}
}

func TestMountedFilesAreAsConfigured(t *testing.T) {
	config, err := sample().Render()
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
	for what, leave := range map[string]func(*Config){
		"node image": func(c *Config) { c.NodeImage = "" }, "version of Kubernetes": func(c *Config) { c.Kubernetes = "" },
		"version of CoreDNS": func(c *Config) { c.CoreDNS = "" }, "folder of mounted files": func(c *Config) { c.Mounts = "" },
		"mode of kube-proxy": func(c *Config) { c.ProxyMode = "" },
	} {
		c := sample()
		leave(&c)
		if _, err := c.Render(); err == nil || !strings.Contains(err.Error(), "no "+what+" given") {
			t.Errorf("no %s: %v", what, err)
		}
	}
}

// A spare worker has the labels of an instance only once it is one.
func TestASpareWorkerIsNoInstanceYet(t *testing.T) {
	c := sample()
	c.Spares = 2
	got, err := c.Render()
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

// For Kubernetes before 1.36 kind writes kubeadm's configuration as v1beta3. What our patches make of it must be what
// kind writes as v1beta4 for newer versions: to that, all others of ours apply. testdata/kubeadm has both, as kind
// v0.33.0 writes them.
func TestAnOlderKubeadmsConfigurationBecomesThePresentOne(t *testing.T) {
	for version, older := range map[string]bool{"v1.33": true, "v1.34.4": true, "v1.35.4": true, "v1.36": false, "v1.37.2": false} {
		c := sample()
		c.Kubernetes = version
		text, err := c.Render()
		if err != nil {
			t.Fatal(err)
		}
		var rendered v1alpha4.Cluster
		if err := yaml.UnmarshalStrict(text, &rendered); err != nil {
			t.Fatalf("kind cannot read it: %v", err)
		}
		if !older {
			if n := len(rendered.KubeadmConfigPatchesJSON6902); n > 0 {
				t.Errorf("%s: %d patches of v1beta3", version, n)
			}
			continue
		}
		want := documents(t, "testdata/kubeadm/v1beta4.yaml")
		for i, doc := range documents(t, "testdata/kubeadm/v1beta3.yaml") {
			for _, p := range rendered.KubeadmConfigPatchesJSON6902 {
				if doc["kind"] == p.Kind && doc["apiVersion"] == p.Group+"/"+p.Version {
					doc = patched(t, doc, p.Patch)
				}
			}
			if !reflect.DeepEqual(doc, want[i]) {
				t.Errorf("%s: got\n%v\nwant\n%v", version, doc, want[i])
			}
		}
	}
}

func documents(t *testing.T, file string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for text := range strings.SplitSeq(read(t, file), "\n---\n") {
		var doc map[string]any
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		all = append(all, doc)
	}
	return all
}

// patched is a document after the operations of a JSON patch.
func patched(t *testing.T, doc map[string]any, operations string) map[string]any {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(operations))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(after, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
