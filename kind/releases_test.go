package kind

import (
	"os"
	"strings"
	"testing"
)

// A folder that is named for one version and pins another would be a lie.
func TestReleasesPinTheirVersion(t *testing.T) {
	folders, err := os.ReadDir("images/releases")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		release, ok := ReleaseNamed(folder.Name())
		if !ok || release.String() != folder.Name() {
			t.Errorf("releases/%s is no PROGRAM-VERSION", folder.Name())
			continue
		}
		file := "images/" + release.folder() + "/" + storedModule
		if !isThere(file) {
			if _, definitions, err := release.Definitions(); err != nil || len(definitions) == 0 {
				t.Errorf("releases/%s has nothing: %v", folder.Name(), err)
			}
			continue
		}
		module := Modules()[release.Program]
		if got := buildList(t, file)[module]; got != release.Version {
			t.Errorf("%s requires %s %s", file, module, got)
		}
		if name := parse(t, file).Module.Mod.Path; !strings.HasSuffix(name, "/"+release.folder()) {
			t.Errorf("%s is module %s", file, name)
		}
		for _, replaced := range parse(t, file).Replace {
			want := replaced.New.Version // a library; .ci/pin has when that may be
			if strings.HasPrefix(replaced.Old.Path, "k8s.io/") {
				want = "v0" + strings.TrimPrefix(release.Version, "v1")
			}
			if replaced.New.Path != replaced.Old.Path || replaced.New.Version != want || replaced.Old.Path == module {
				t.Errorf("%s replaces %s by %s %s, want %s", file, replaced.Old.Path, replaced.New.Path, replaced.New.Version, want)
			}
		}
		script, wanted := "release.sh", "\n\t"+string(release.Program)+") echo "
		if release.Program == Kubernetes {
			script, wanted = "node.sh", "\nmake_kubernetes() {"
		}
		if !strings.Contains(read(t, "images/"+script), wanted) {
			t.Errorf("%s does not know how to build %s", script, release.Program)
		}
	}
}

// A node runs the etcd that its kubeadm names.
func TestNodesHaveTheirEtcd(t *testing.T) {
	known, err := ImageOptions{Source: ".."}.known(Kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	built := 0
	for _, r := range known {
		if !r.buildable {
			continue
		}
		built++
		etcd, err := ImageOptions{Source: ".."}.etcdOf(r)
		if err != nil || !isThere("images/"+etcd.folder()+"/"+storedModule) {
			t.Errorf("%s runs %s, which has no folder: %v", r, etcd, err)
		}
	}
	if built < 5 {
		t.Errorf("only %d releases of Kubernetes can be built", built)
	}
}

func TestReleaseImages(t *testing.T) {
	for _, program := range Programs() {
		r := Release{Program: program, Version: "v1.2.3"}
		if !strings.HasSuffix(r.Public(), "1.2.3") {
			t.Errorf("%s: %q", r, r.Public())
		}
		if sources := r.image().sources; sources[1] != "releases/"+string(program)+"-v1.2.3" {
			t.Errorf("%s is built from %v", r, sources)
		}
	}
	if (Release{Program: "bind"}).Public() != "" {
		t.Error("an unknown program has an image")
	}
}
