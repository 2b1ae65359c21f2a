package coredns

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/semver"
)

var update = flag.Bool("update", false, "write directives.txt from the newest CoreDNS that kind/ builds")

// The list is that of the newest CoreDNS that kind/ builds.
func TestDirectives(t *testing.T) {
	const releases = "../../kind/images/releases/coredns-"
	folders, err := filepath.Glob(releases + "v*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no release of CoreDNS: %v", err)
	}
	newest := strings.TrimPrefix(slices.MaxFunc(folders, func(a, b string) int {
		return semver.Compare(strings.TrimPrefix(a, releases), strings.TrimPrefix(b, releases))
	}), releases)
	head := "# CoreDNS " + newest + "\n"
	if *update {
		writeDirectives(t, newest, head)
	}
	if !strings.HasPrefix(directivesFile, head) && !*update {
		t.Errorf("directives.txt is not that of CoreDNS %s; go test ./framework/coredns -run TestDirectives -update", newest)
	}
	if d, known := Directives(""); len(d) < 50 || d[0] != "root" || !known {
		t.Errorf("%q", d)
	}
}

func TestDirectivesOfAVersion(t *testing.T) {
	const has, lacks, maybe = "", "is no plugin of CoreDNS", "is not known by its tag"
	for of, want := range map[string]string{
		"v1.12.1 multisocket": has, "v1.11.4-eksbuild.2 multisocket": lacks, "1.12.0-debian-12-r3 multisocket": has,
		"1.6.9 federation": has, "1.7.0 federation": lacks, "1.4.0 proxy": has, "v1.12.1 proxy": lacks,
		"1.4.0 ready": lacks, "1.5.0 ready": has, "v1.12.1 helth": lacks, "v1.99.0 helth": maybe, "latest helth": maybe, "latest ready": has,
	} {
		tag, plugin, _ := strings.Cut(of, " ")
		c := Read(Source{Text: ". {\n " + plugin + "\n}\n", Tag: tag})
		if got := c.Refused + c.Doubt; got != "" != (want != "") || !strings.Contains(got, want) || (c.Doubt != "") != (want == maybe) {
			t.Errorf("%s: %q, %q; want %q", of, c.Refused, c.Doubt, want)
		}
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

func TestZonesThatDifferByCaseAreOneSinceAVersion(t *testing.T) {
	for tag, want := range map[string]struct{ refused, doubt string }{
		"v1.14.6":         {},
		"v1.14.7":         {refused: "the address A.test is defined twice"},
		"":                {refused: "the address A.test is defined twice"},
		"of-our-own":      {doubt: "the address A.test is defined twice, in another case, which CoreDNS refuses since v1.14.7"},
		"1.11.4-eksbuild": {},
	} {
		c := Read(Source{Text: "a.test {\n}\nA.test {\n}\n", Tag: tag})
		if c.Refused != want.refused || c.Doubt != want.doubt {
			t.Errorf("%q: refused for %q, in doubt for %q, want %+v", tag, c.Refused, c.Doubt, want)
		}
	}
}
