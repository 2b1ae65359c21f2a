package kind

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// recipes is the folder kind/images, for a program that runs outside a checkout. It is packed, since
// folders that are modules of their own cannot be embedded. `make fix` packs it again.
//
//go:embed recipes.tar.gz
var recipes []byte

// folder is the folder with the recipes of images: that of the checkout, or else a copy of what this
// program was built with, in the cache.
func (o ImageOptions) folder() (string, error) {
	inCheckout := filepath.Join(o.Source, "kind", "images")
	if isThere(filepath.Join(inCheckout, "build.sh")) {
		return inCheckout, nil
	}
	state, err := engine.StateDir()
	if err != nil {
		return "", err
	}
	into := filepath.Join(state, fmt.Sprintf("recipes-%.6x", sha256.Sum256(recipes)))
	if isThere(into) {
		return into, nil
	}
	if err := unpackOnce(state, into); err != nil {
		return "", fmt.Errorf("unpack the recipes of images: %w", err)
	}
	return into, nil
}

// unpackOnce makes the folder into, below state, at once and whole: another process may do the same.
func unpackOnce(state, into string) error {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(state, "recipes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := unpack(recipes, work); err != nil {
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

// unpack writes the files of a packed folder.
func unpack(packed []byte, into string) error {
	gz, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	for files := tar.NewReader(gz); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%q is outside the folder", header.Name)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		file := filepath.Join(into, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, header.FileInfo().Mode().Perm()); err != nil {
			return err
		}
	}
}
