// Package nodeimages loads images into the containerd of kind nodes: of the engine, and of the product's own binary.
package nodeimages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// readyTimeout bounds the wait for a node's containerd.
const readyTimeout = 2 * time.Minute

// LoadBinary loads a static Linux binary into nodes, as an image that contains
// nothing else, and returns the image's name. The tag is the binary's hash: nodes that
// have the image already are skipped.
func LoadBinary(ctx context.Context, eng *engine.Engine, path string, nodes []string) (string, error) {
	if err := Static(path); err != nil {
		return "", err
	}
	architecture, err := Architecture(path)
	if err != nil {
		return "", err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the product's binary: %w", err)
	}
	// Nodes are containers of one engine, and have one architecture. The API may not answer yet.
	machine, err := eng.Exec(ctx, nodes[0], nil, "uname", "-m")
	if err != nil {
		return "", fmt.Errorf("read the architecture of node %s: %w", nodes[0], err)
	}
	if err := runsOn(strings.TrimSpace(machine), architecture, path); err != nil {
		return "", err
	}
	ref := binaryRef(binary)
	return ref, load(ctx, eng, ref, nodes, func() ([]byte, error) { return imageArchive(ref, architecture, binary) })
}

// Static returns an error if a file is no Linux binary, or one that requires a dynamic
// linker. An image that contains nothing else has none.
func Static(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is no Linux binary: %w", path, err)
	}
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s is linked dynamically, and cannot start in a pod that has no other file: build it with CGO_ENABLED=0", path)
	}
	return nil
}

// Architecture returns the architecture that a Linux binary is built for, as Go names it.
func Architecture(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s is no Linux binary: %w", path, err)
	}
	defer file.Close()
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("%s is built for %s: want amd64 or arm64", path, file.Machine)
}

// runsOn returns an error if a machine, as uname -m names it, runs no binary of an architecture.
func runsOn(machine, architecture, path string) error {
	is, known := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[machine]
	if known && is == architecture {
		return nil
	}
	if !known {
		return fmt.Errorf("the nodes are %s: want x86_64 or aarch64", machine)
	}
	return fmt.Errorf("%s is built for %s, and the nodes are %s: build one with CGO_ENABLED=0 GOOS=linux GOARCH=%s, and give it with --binary", path, architecture, is, is)
}

// BinaryDigest returns the tag that LoadBinary gives to a binary.
func BinaryDigest(path string) (string, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the product's binary: %w", err)
	}
	return digestOf(binary), nil
}

func binaryRef(binary []byte) string { return "localhost/spotdrill/spotdrill:" + digestOf(binary) }

// WithoutBinary returns those of the nodes into which LoadBinary would load a binary: that do not have
// it yet.
func WithoutBinary(ctx context.Context, eng *engine.Engine, path string, nodes []string) ([]string, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the product's binary: %w", err)
	}
	var out []string
	for _, node := range nodes {
		present, err := hasImage(ctx, eng, node, binaryRef(binary))
		if err != nil {
			return nil, err
		}
		if !present {
			out = append(out, node)
		}
	}
	return out, nil
}

func digestOf(binary []byte) string { return fmt.Sprintf("%x", sha256.Sum256(binary))[:12] }

// Load loads an image of the engine into nodes and returns the name that it has
// there. The name contains what the image is of, such as handler, and its id, so it
// always means this image, whatever its name in the engine is.
func Load(ctx context.Context, eng *engine.Engine, image, of string, nodes []string) (string, error) {
	id, err := eng.Run(ctx, "image", "inspect", "--format", "{{.Id}}", image)
	if err != nil {
		return "", fmt.Errorf("find image %s: %w", image, err)
	}
	id = strings.TrimPrefix(id, "sha256:")
	ref := "localhost/spotdrill/" + of + ":" + id[:min(12, len(id))]
	return ref, LoadAs(ctx, eng, image, ref, nodes)
}

// LoadAs loads an image of the engine into nodes under a name, unless they have one of that name.
func LoadAs(ctx context.Context, eng *engine.Engine, image, ref string, nodes []string) error {
	return load(ctx, eng, ref, nodes, func() ([]byte, error) { return savedArchive(ctx, eng, image, ref) })
}

// hasImage reports whether a node has an image. In a container that has just started, such as that of a
// spare worker which was parked, containerd may not answer yet.
func hasImage(ctx context.Context, eng *engine.Engine, node, ref string) (present bool, err error) {
	err = wait.Until(ctx, readyTimeout, "the images of node "+node, func(ctx context.Context) string {
		out, err := eng.Exec(ctx, node, nil, "ctr", "-n", "k8s.io", "images", "ls", "-q", "name=="+ref)
		if err != nil {
			return err.Error()
		}
		present = strings.TrimSpace(out) != ""
		return ""
	})
	return present, err
}

// load imports an archive into those of the nodes that do not have its image yet.
func load(ctx context.Context, eng *engine.Engine, ref string, nodes []string, archive func() ([]byte, error)) error {
	var content []byte
	group, groupCtx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		present, err := hasImage(ctx, eng, node, ref)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		if present {
			continue
		}
		if content == nil {
			if content, err = archive(); err != nil {
				return errors.Join(fmt.Errorf("pack image %s: %w", ref, err), group.Wait())
			}
		}
		group.Go(func() error {
			_, err := eng.Exec(groupCtx, node, bytes.NewReader(content), "ctr", "-n", "k8s.io", "images", "import", "-")
			return wrap.Errorf(err, "load image %s into node %s", ref, node)
		})
	}
	return group.Wait()
}

// Remove removes from nodes an image that LoadBinary loaded, and frees the disk
// that it takes. Nodes that do not have it are skipped.
func Remove(ctx context.Context, eng *engine.Engine, ref string, nodes []string) error {
	for _, node := range nodes {
		if err := remove(ctx, eng, node, ref); err != nil {
			return fmt.Errorf("remove image %s from node %s: %w", ref, node, err)
		}
	}
	return nil
}

// remove also removes the names that the kubelet's interface to containerd has given
// the image: each of them keeps its content.
func remove(ctx context.Context, eng *engine.Engine, node, ref string) error {
	images := func(args ...string) (string, error) {
		return eng.Exec(ctx, node, nil, append([]string{"ctr", "-n", "k8s.io", "images"}, args...)...)
	}
	table, err := images("ls", "name=="+ref)
	if err != nil {
		return err
	}
	digest, ok := digestIn(table, ref)
	if !ok {
		return nil
	}
	names, err := images("ls", "-q", "target.digest=="+digest)
	if err != nil {
		return err
	}
	_, err = images(append([]string{"rm", "--sync"}, strings.Fields(names)...)...)
	return err
}

// digestIn returns an image's digest from a table of ctr, which has the columns REF, TYPE
// and DIGEST.
func digestIn(table, ref string) (digest string, ok bool) {
	for line := range strings.Lines(table) {
		if columns := strings.Fields(line); len(columns) > 2 && columns[0] == ref {
			return columns[2], true
		}
	}
	return "", false
}

// savedArchive returns a docker archive of an image of the engine, under another name.
func savedArchive(ctx context.Context, eng *engine.Engine, image, ref string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "spotdrill-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "image.tar")
	if _, err := eng.Run(ctx, "save", "--output", path, image); err != nil {
		return nil, err
	}
	saved, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return nil, err
	}
	return named(ref, saved)
}

// named returns a docker archive of an image under a name.
func named(ref string, image v1.Image) ([]byte, error) {
	tag, err := name.NewTag(ref)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tarball.Write(tag, image, &out)
	return out.Bytes(), err
}

// imageArchive returns a docker archive of an image that contains only the binary.
func imageArchive(ref, architecture string, binary []byte) ([]byte, error) {
	var files bytes.Buffer
	tw := tar.NewWriter(&files)
	if err := tw.WriteHeader(&tar.Header{Name: "spotdrill", Mode: 0o755, Size: int64(len(binary))}); err != nil {
		return nil, err
	}
	if _, err := tw.Write(binary); err != nil {
		return nil, err
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	// Compressing it would take longer than copying it.
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil },
		tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	config.Config.Entrypoint = []string{"/spotdrill"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return named(ref, image)
}
