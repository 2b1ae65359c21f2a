package kind

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tracked are the files of images, as git has them.
func tracked(t *testing.T) []string {
	t.Helper()
	list, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "images").Output()
	if err != nil {
		t.Skipf("not in a git checkout: %v", err)
	}
	return slices.Sorted(slices.Values(strings.Fields(string(list))))
}

// packed packs the files, the same each time.
func packed(t *testing.T, files []string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	out := tar.NewWriter(gz)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		name := strings.TrimPrefix(file, "images/")
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, closed := range []interface{ Close() error }{out, gz} {
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestPackedRecipesAreThoseOfTheCheckout(t *testing.T) {
	files := tracked(t)
	if *update {
		recipes = packed(t, files)
		if err := os.WriteFile("recipes.tar.gz", recipes, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	into := t.TempDir()
	if err := unpack(recipes, into); err != nil {
		t.Fatal(err)
	}
	var found []string
	err := fs.WalkDir(os.DirFS(into), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, "images/"+path)
		}
		return err
	})
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(found)), files) {
		t.Fatalf("packed %v, want %v, %v (make fix packs them again)", found, files, err)
	}
	for _, file := range files {
		got, err := os.ReadFile(filepath.Join(into, strings.TrimPrefix(file, "images/")))
		want := read(t, file)
		if err != nil || string(got) != want {
			t.Errorf("%s is not what was packed (make fix packs it again): %v", file, err)
		}
	}
}

// A program outside a checkout builds the same images: their references are a digest of the recipes.
func TestImagesHaveOneReferenceInsideAndOutsideACheckout(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	outside := ImageOptions{Source: t.TempDir()}
	for _, img := range []image{nodeImage(), localStackImage(), handlerImage("", "karpenter"), handlerImage("", "nth-v1.25.6")} {
		inside, err := ImageOptions{Source: ".."}.reference(img)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second finds them unpacked
			if got, err := outside.reference(img); err != nil || got != inside {
				t.Errorf("%s outside a checkout: %q, %v, want %q", img.name, got, err, inside)
			}
		}
	}
	folder, err := outside.folder()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(folder, "build.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("build.sh cannot be run: %v, %v", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(folder), "recipes-*")); err != nil || len(left) != 1 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}

func TestWhatIsPackedWrongIsNotUnpacked(t *testing.T) {
	var outside bytes.Buffer
	gz := gzip.NewWriter(&outside)
	out := tar.NewWriter(gz)
	if err := out.WriteHeader(&tar.Header{Name: "../outside", Size: 0}); err != nil {
		t.Fatal(err)
	}
	if out.Close() != nil || gz.Close() != nil {
		t.Fatal("not packed")
	}
	for name, packed := range map[string][]byte{"nothing": nil, "no archive": []byte("text"), "cut short": recipes[:len(recipes)/2], "a file outside": outside.Bytes()} {
		if err := unpack(packed, t.TempDir()); err == nil {
			t.Errorf("%s was unpacked", name)
		}
	}
}
