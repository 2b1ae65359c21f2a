package kind

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

// versions.env, the go.mod files and the lock file must name one version each.
func TestVersionsAgree(t *testing.T) {
	for file, modules := range map[string]map[string]string{
		"../go.mod":                    {"sigs.k8s.io/kind": "KIND_VERSION"},
		"images/containerd/go.mod.txt": {"github.com/containerd/containerd/v2": "CONTAINERD_VERSION"},
		"images/cni/go.mod.txt":        {"github.com/containernetworking/plugins": "CNI_VERSION"},
	} {
		list := buildList(t, file)
		for module, name := range modules {
			if want := version(name); list[module] != want || want == "" {
				t.Errorf("%s has %s %q, versions.env has %s=%s", file, module, list[module], name, want)
			}
		}
	}
	lock := read(t, "images/localstack/requirements.txt")
	if !strings.Contains(lock, "\nlocalstack-core=="+version("LOCALSTACK_VERSION")+" ") {
		t.Errorf("requirements.txt has no localstack-core==%s", version("LOCALSTACK_VERSION"))
	}
}

// The node image that kind takes by default is one of those that are pulled, by the same digest.
func TestKindsOwnNodeImageIsKnown(t *testing.T) {
	repository, digest, _ := strings.Cut(defaults.Image, "@")
	_, version, _ := strings.Cut(repository, ":")
	if got := publishedNodes()[version]; got != digest {
		t.Errorf("kind %s pulls %s; publishedNodes has %q", version, defaults.Image, got)
	}
	if got := PublicNodeImage(); got != "docker.io/kindest/node@"+digest {
		t.Errorf("PublicNodeImage is %s", got)
	}
}

// buildList is the version of every module that a go.mod requires.
func buildList(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed := parse(t, file)
	list := map[string]string{}
	for _, require := range parsed.Require {
		list[require.Mod.Path] = require.Mod.Version
	}
	for _, replace := range parsed.Replace {
		list[replace.Old.Path] = replace.New.Version
	}
	return list
}

func parse(t *testing.T, file string) *modfile.File {
	t.Helper()
	parsed, err := modfile.Parse(file, []byte(read(t, file)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestHandlerImages(t *testing.T) {
	const public = "registry.example/handler:v1"
	for recipe, want := range map[string]image{
		"":                  {name: "handler's", public: public},
		"karpenter-v1.15.0": {name: "karpenter-v1.15.0", public: public, sources: []string{"release.sh", "releases/karpenter-v1.15.0"}},
		"nth-v1.25.6":       {name: "nth-v1.25.6", public: public, sources: []string{"release.sh", "releases/nth-v1.25.6"}},
	} {
		if got := handlerImage(public, recipe); !reflect.DeepEqual(got, want) {
			t.Errorf("recipe %q: %+v, want %+v", recipe, got, want)
		}
	}
}

func TestLockNamesNoIndex(t *testing.T) {
	if lock := read(t, "images/localstack/requirements.txt"); strings.Contains(lock, "://") {
		t.Error("requirements.txt names an address")
	}
}

func TestBuiltLocalStackRunsAsThePulledOne(t *testing.T) {
	script := read(t, "images/localstack.sh")
	for _, variable := range LocalStackEnv() {
		if !strings.Contains(script, "'ENV "+variable+"'") {
			t.Errorf("localstack.sh does not set %s", variable)
		}
	}
}

func TestBuiltReference(t *testing.T) {
	source := t.TempDir()
	folder := filepath.Join(source, "kind", "images")
	one := image{name: "one", sources: []string{"one.sh", "module"}}
	for _, name := range []string{"build.sh", "steps.sh", "versions.env", "one.sh", "module/go.mod", "two.sh"} {
		write(t, filepath.Join(folder, name), name)
	}
	first := referenceOf(t, source, one)
	if !strings.HasPrefix(first, "localhost/spotdrill/one:") || len(first) != len("localhost/spotdrill/one:")+12 {
		t.Errorf("got %s", first)
	}
	write(t, filepath.Join(folder, "two.sh"), "changed")
	if again := referenceOf(t, source, one); again != first {
		t.Error("another image's script changes it")
	}
	write(t, filepath.Join(folder, "module", "go.mod"), "changed")
	if again := referenceOf(t, source, one); again == first {
		t.Error("a changed module leaves it as it was")
	}
}

// Modules that go downloads are one line; all else is logged whole, errors without a line's end too.
func TestLines(t *testing.T) {
	for want, parts := range map[string][]string{
		"one|two|rest": {"one\ntw", "o\n", "rest"},
		"one|2 Go modules downloaded|x.go:1: undefined: y|1 Go module downloaded": {
			"one\ngo: downloading a v1\ngo: downlo", "ading b v1\nx.go:1: undefined: y\ngo: downloading c v1\n",
		},
		"go: downloading failed": {"go: downloading failed"},
	} {
		var logged []string
		writer := &lines{log: func(_ string, args ...any) { logged = append(logged, args[0].(string)) }}
		for _, part := range parts {
			if n, err := writer.Write([]byte(part)); n != len(part) || err != nil {
				t.Errorf("wrote %d of %d: %v", n, len(part), err)
			}
		}
		writer.end()
		if got := strings.Join(logged, "|"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func referenceOf(t *testing.T, source string, img image) string {
	t.Helper()
	ref, err := ImageOptions{Source: source}.reference(img)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
