package kind

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program outside a checkout builds the same images: their references are a digest of the recipes.
func TestImagesHaveOneReferenceInsideAndOutsideACheckout(t *testing.T) {
	outside := ImageOptions{Source: t.TempDir()}
	nodes, _, _, err := outside.nodeImage("")
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range []image{nodes, localStackImage(), handlerImage("", "karpenter-v1.15.0"), handlerImage("", "nth-v1.25.6")} {
		inside, err := ImageOptions{Source: ".."}.reference(img)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := outside.reference(img); err != nil || got != inside {
			t.Errorf("%s outside a checkout: %q, %v, want %q", img.name, got, err, inside)
		}
	}
}

// Images are built in a copy of the recipes, which has the modules under the name that Go needs.
func TestRecipesAreWrittenOnceAndCanBeBuilt(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	first, err := ImageOptions{Source: ".."}.folder()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ImageOptions{Source: t.TempDir()}.folder()
	if err != nil || again != first {
		t.Errorf("outside a checkout: %s, %v, want %s", again, err, first)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(first), "recipes-*")); err != nil || len(left) != 1 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
	for _, name := range []string{"releases/coredns-v1.15.0/main.go", "releases/nth-v1.25.6/go.sum", "localstack/requirements.txt"} {
		if got := read(t, filepath.Join(first, name)); got != read(t, "images/"+name) {
			t.Errorf("%s is not that of the checkout", name)
		}
	}
	list := exec.Command("go", "list", "-m")
	list.Dir = filepath.Join(first, "releases", "coredns-v1.13.0")
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := list.CombinedOutput(); err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "/releases/coredns-v1.13.0") {
		t.Errorf("not a module: %s, %v", out, err)
	}
	if out, err := exec.Command("bash", filepath.Join(first, "build.sh"), "nothing").CombinedOutput(); err == nil || !strings.Contains(string(out), "usage: build.sh") {
		t.Errorf("build.sh: %s, %v", out, err)
	}
}
