package coredns

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write directives.txt from the CoreDNS that kind/ builds")

// The list is that of the CoreDNS that kind/ builds.
func TestDirectives(t *testing.T) {
	module, err := os.ReadFile("../../kind/images/coredns/go.mod.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`github\.com/coredns/coredns (v\S+)`).FindSubmatch(module)
	if m == nil {
		t.Fatal("kind/images/coredns/go.mod.txt names no version of CoreDNS")
	}
	head := "# CoreDNS " + string(m[1]) + "\n"
	if *update {
		writeDirectives(t, string(m[1]), head)
	}
	if !strings.HasPrefix(directivesFile, head) && !*update {
		t.Errorf("directives.txt is not that of CoreDNS %s; go test ./framework/coredns -run TestDirectives -update", m[1])
	}
	if d := Directives(); len(d) < 50 || d[0] != "root" {
		t.Errorf("%q", d)
	}
}

func writeDirectives(t *testing.T, version, head string) {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", "github.com/coredns/coredns@"+version)
	command.Dir = t.TempDir()
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(module.Dir, "core", "dnsserver", "zdirectives.go"))
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.NewBufferString(head)
	for _, m := range regexp.MustCompile(`(?m)^\t"(\w+)",$`).FindAllSubmatch(source, -1) {
		text.Write(append(m[1], '\n'))
	}
	if err := os.WriteFile("directives.txt", text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
