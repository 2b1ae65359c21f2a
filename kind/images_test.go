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

// What is built must be what is pulled: one version each, everywhere.
func TestVersionsAgree(t *testing.T) {
	kubernetes := version("KUBERNETES_VERSION")
	if !strings.HasPrefix(defaults.Image, "kindest/node:"+kubernetes+"@sha256:") { //nolint:gocritic // the order is right: the image has the prefix
		t.Errorf("kind's own node image is %s, versions.env has %s", defaults.Image, kubernetes)
	}
	for file, modules := range map[string]map[string]string{
		"../go.mod":                    {"sigs.k8s.io/kind": "KIND_VERSION"},
		"images/kubernetes/go.mod.txt": {"k8s.io/kubernetes": "KUBERNETES_VERSION"},
		"images/containerd/go.mod.txt": {"github.com/containerd/containerd/v2": "CONTAINERD_VERSION"},
		"images/cni/go.mod.txt":        {"github.com/containernetworking/plugins": "CNI_VERSION"},
		"images/etcd/go.mod.txt":       {"go.etcd.io/etcd/server/v3": "ETCD_VERSION"},
		"images/coredns/go.mod.txt":    {"github.com/coredns/coredns": "COREDNS_VERSION"},
		"images/karpenter/go.mod.txt": {
			"github.com/aws/karpenter-provider-aws": "KARPENTER_VERSION", "sigs.k8s.io/karpenter": "KARPENTER_VERSION",
		},
	} {
		list := buildList(t, file)
		for module, name := range modules {
			if want := version(name); list[module] != want || want == "" {
				t.Errorf("%s has %s %q, versions.env has %s=%s", file, module, list[module], name, want)
			}
		}
		for _, replaced := range parse(t, file).Replace {
			if want := "v0" + strings.TrimPrefix(kubernetes, "v1"); replaced.New.Version != want {
				t.Errorf("%s replaces %s by %s, want %s", file, replaced.Old.Path, replaced.New.Version, want)
			}
		}
	}
	lock := read(t, "images/localstack/requirements.txt")
	if !strings.Contains(lock, "\nlocalstack-core=="+version("LOCALSTACK_VERSION")+" ") {
		t.Errorf("requirements.txt has no localstack-core==%s", version("LOCALSTACK_VERSION"))
	}
}

// What the product, CoreDNS and Kubernetes all need is compiled once only where
// they need one version of it: that saves minutes.
func TestModulesAreSharedWithKubernetes(t *testing.T) {
	built := buildList(t, "images/kubernetes/go.mod.txt")
	for _, file := range []string{"../go.mod", "images/coredns/go.mod.txt", "images/etcd/go.mod.txt"} {
		for module, version := range buildList(t, file) {
			if strings.HasPrefix(module, "github.com/coredns/") {
				continue // kubeadm reads Corefiles with an older Caddy
			}
			if other, shared := built[module]; shared && other != version {
				t.Errorf("%s requires %s %s, images/kubernetes has %s", file, module, version, other)
			}
		}
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

func TestEveryRecipeIsThere(t *testing.T) {
	for _, recipe := range Recipes() {
		if _, ok := releaseNamed(recipe); ok {
			read(t, "images/releases/"+recipe+"/"+storedModule)
			continue
		}
		if script := read(t, "images/"+recipe+".sh"); !strings.Contains(script, "\nbuild_"+recipe+"() {") {
			t.Errorf("%s.sh has no build_%s", recipe, recipe)
		}
		if script := read(t, "images/build.sh"); !strings.Contains(script, "|"+recipe) {
			t.Errorf("build.sh does not know %s", recipe)
		}
	}
}

func TestHandlerImages(t *testing.T) {
	const public = "registry.example/handler:v1"
	for recipe, want := range map[string]image{
		"":            {name: "handler's", public: public},
		"karpenter":   {name: "karpenter", public: public, sources: []string{"karpenter.sh", "karpenter"}},
		"nth-v1.25.6": {name: "nth-v1.25.6", public: public, sources: []string{"release.sh", "releases/nth-v1.25.6"}},
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
