package kind

import (
	"os"
	"path"
	"strings"
	"testing"
)

// A folder that is named for one version and pins another would reproduce nothing.
func TestReleasesPinTheirVersion(t *testing.T) {
	modules := map[Program]string{
		NTH: "github.com/aws/aws-node-termination-handler", Karpenter: "github.com/aws/karpenter-provider-aws",
		CoreDNS: "github.com/coredns/coredns", KubeProxy: "k8s.io/kubernetes", Kwok: "sigs.k8s.io/kwok",
	}
	folders, err := os.ReadDir("images/releases")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		release, ok := releaseNamed(folder.Name())
		if !ok || modules[release.Program] == "" || release.String() != folder.Name() {
			t.Errorf("releases/%s is no PROGRAM-VERSION", folder.Name())
			continue
		}
		file := "images/releases/" + folder.Name() + "/" + storedModule
		if got := buildList(t, file)[modules[release.Program]]; got != release.Version {
			t.Errorf("%s requires %s %s", file, modules[release.Program], got)
		}
		for _, replaced := range parse(t, file).Replace {
			if want := "v0" + strings.TrimPrefix(release.Version, "v1"); replaced.New.Version != want {
				t.Errorf("%s replaces %s by %s, want %s", file, replaced.Old.Path, replaced.New.Version, want)
			}
		}
		if !strings.Contains(read(t, "images/release.sh"), "\n\t"+string(release.Program)+") echo ") {
			t.Errorf("release.sh does not know %s's package", release.Program)
		}
	}
}

func TestReleaseImages(t *testing.T) {
	for _, program := range Programs() {
		r := Release{Program: program, Version: "v1.2.3"}
		if !strings.HasSuffix(r.Public(), "1.2.3") {
			t.Errorf("%s: %q", r, r.Public())
		}
		if sources := r.image().sources; sources[1] != path.Join("releases", string(program)+"-v1.2.3") {
			t.Errorf("%s is built from %v", r, sources)
		}
	}
	if (Release{Program: "bind"}).Public() != "" {
		t.Error("an unknown program has an image")
	}
}
