package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"
)

// LoadBinary puts a static Linux binary into the workers as an image of its
// own, with nothing else in it, and returns the image's name. The tag is the
// binary's hash: a node that has it already is left alone.
func (c *Cluster) LoadBinary(ctx context.Context, path string) (string, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the product's binary: %w", err)
	}
	ref := fmt.Sprintf("localhost/spotdrill/spotdrill:%x", sha256.Sum256(binary))[:len("localhost/spotdrill/spotdrill:")+12]
	var archive []byte
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range WorkerNames(c.Name) {
		present, err := c.engine.Exec(ctx, node, nil, "ctr", "-n", "k8s.io", "images", "ls", "-q", "name=="+ref)
		if err != nil {
			return "", fmt.Errorf("list images of node %s: %w", node, err)
		}
		if strings.TrimSpace(present) != "" {
			continue
		}
		if archive == nil {
			if archive, err = imageArchive(ref, binary); err != nil {
				return "", fmt.Errorf("pack %s as an image: %w", path, err)
			}
		}
		group.Go(func() error {
			_, err := c.engine.Exec(ctx, node, bytes.NewReader(archive), "ctr", "-n", "k8s.io", "images", "import", "-")
			if err != nil {
				return fmt.Errorf("load the product's image into node %s: %w", node, err)
			}
			return nil
		})
	}
	return ref, group.Wait()
}

// imageArchive is a docker archive of an image that holds only the binary.
func imageArchive(ref string, binary []byte) ([]byte, error) {
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
	// Packing it smaller would take longer than carrying it over.
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
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{"/spotdrill"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tarball.Write(tag, image, &out)
	return out.Bytes(), err
}
