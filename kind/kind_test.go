package kind

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestRender(t *testing.T) {
	got, err := Render("localhost/spotdrill/node:tag", "/state", "iptables")
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

func TestMountedFilesAreAsConfigured(t *testing.T) {
	config, err := Render("image", "/state", "iptables")
	if err != nil {
		t.Fatal(err)
	}
	for name := range Mounted() {
		if !bytes.Contains(config, []byte("hostPath: /state/"+name+"\n")) {
			t.Errorf("no node mounts %s", name)
		}
	}
	if !strings.Contains(Mounted()["collector.conf"], "GOGC="+collector+"\n") {
		t.Errorf("collector.conf says another GOGC than %s", collector)
	}
}

func TestRenderWantsAllOfIt(t *testing.T) {
	for _, missing := range [][3]string{{"", "/state", "iptables"}, {"image", "", "iptables"}, {"image", "/state", ""}} {
		if _, err := Render(missing[0], missing[1], missing[2]); err == nil {
			t.Errorf("%q is no error", missing)
		}
	}
}
