package kind

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// embedded is the folder kind/images, for a program that runs outside a checkout.
//
//go:embed images
var embedded embed.FS

// storedModule is the name of a go.mod in kind/images: a folder with a go.mod is a module of
// its own, which go:embed leaves out.
const storedModule = "go.mod.txt"

// recipes are the files that images are built from: those of the checkout, or else those that
// this program was built with.
func (o ImageOptions) recipes() (fs.FS, error) {
	inCheckout := filepath.Join(o.Source, "kind", "images")
	if isThere(filepath.Join(inCheckout, "build.sh")) {
		return os.DirFS(inCheckout), nil
	}
	return fs.Sub(embedded, "images")
}

// eachRecipe visits the files of a file or folder of the recipes, each by the name that it is
// built by.
func eachRecipe(recipes fs.FS, root string, visit func(name string, content []byte) error) error {
	return fs.WalkDir(recipes, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(recipes, name)
		if err != nil {
			return err
		}
		if path.Base(name) == storedModule {
			name = path.Join(path.Dir(name), "go.mod")
		}
		return visit(name, content)
	})
}

// folder is a folder of the cache with the recipes, in which they can be built.
func (o ImageOptions) folder() (string, error) {
	recipes, err := o.recipes()
	if err != nil {
		return "", err
	}
	state, err := engine.StateDir()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	err = eachRecipe(recipes, ".", func(name string, content []byte) error {
		_, err := fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content)
		return err
	})
	into := filepath.Join(state, fmt.Sprintf("recipes-%.6x", hash.Sum(nil)))
	if err == nil && !isThere(into) {
		err = writeOnce(recipes, state, into)
	}
	if err != nil {
		return "", fmt.Errorf("write the recipes of images: %w", err)
	}
	return into, nil
}

// writeOnce makes the folder into, below state, at once and whole: another process may do the same.
func writeOnce(recipes fs.FS, state, into string) error {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(state, "recipes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	err = eachRecipe(recipes, ".", func(name string, content []byte) error {
		file := filepath.Join(work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, content, 0o644)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(work, into); err != nil && !isThere(into) {
		return err
	}
	return nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
