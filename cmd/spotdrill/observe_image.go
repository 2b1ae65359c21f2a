package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/nodeimages"
	"github.com/spotdrill/spotdrill/framework/observe"
)

// releaseImage is the image of this release; its build sets it. Other builds have none.
var releaseImage string

// imageRemoval bounds the removal of an image from the nodes.
const imageRemoval = time.Minute

// proberImage is the image that the probers run.
type proberImage struct {
	reference string
	words     string // what it is, and where it comes from
	engine    *engine.Engine
	loaded    []string // nodes into which it was loaded
}

// chooseImage is the image of --image; or this program itself, loaded into nodes that are containers of
// this machine; or that of the release.
func chooseImage(ctx context.Context, c *observe.Cluster, o observeOptions) (proberImage, error) {
	if o.Image != "" {
		return proberImage{reference: o.Image, words: o.Image + ", of --image or " + imageVariable}, nil
	}
	if config, err := o.cluster.config(); err == nil && onThisMachine(config.Host) {
		machines, err := c.Machines(ctx)
		if err != nil {
			return proberImage{}, err
		}
		if eng, local := containers(ctx, machines); local {
			return loadItself(ctx, eng, slices.Sorted(maps.Keys(machines)))
		}
	}
	if releaseImage != "" {
		return proberImage{reference: releaseImage, words: releaseImage + ", the image of this release"}, nil
	}
	return proberImage{}, usage("there is no image for the probers: this program is no release, and the nodes are no containers of this machine. " +
		"Build an image in a checkout, push it where the nodes can pull it, and give --image REFERENCE: " +
		`make build; tar -C bin -c spotdrill | docker import -c 'ENTRYPOINT ["/spotdrill"]' - REFERENCE; docker push REFERENCE`)
}

// onThisMachine reports whether the address of an API server is one of this machine, as that of a kind
// cluster.
func onThisMachine(host string) bool {
	parsed, err := url.Parse(host)
	if err != nil {
		return false
	}
	ip := net.ParseIP(parsed.Hostname())
	return parsed.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// containers reports whether all machines are containers of this machine's engine that have the names of the
// nodes: by /etc/machine-id, since another cluster's nodes can have the same names.
func containers(ctx context.Context, machines map[string]string) (*engine.Engine, bool) {
	eng, err := engine.Detect(ctx, engine.Options{})
	if err != nil || len(machines) == 0 {
		return nil, false
	}
	for name, machine := range machines {
		id, err := eng.Exec(ctx, name, nil, "cat", "/etc/machine-id")
		if err != nil || machine == "" || strings.TrimSpace(id) != machine {
			return nil, false
		}
	}
	return eng, true
}

// loadItself loads this program into nodes as an image.
func loadItself(ctx context.Context, eng *engine.Engine, nodes []string) (proberImage, error) {
	self, err := os.Executable()
	if err != nil {
		return proberImage{}, fmt.Errorf("find this program: %w", err)
	}
	missing, err := nodeimages.WithoutBinary(ctx, eng, self, nodes)
	if err != nil {
		return proberImage{}, err
	}
	reference, err := nodeimages.LoadBinary(ctx, eng, self, nodes)
	if err != nil {
		return proberImage{}, fmt.Errorf("load this program into the nodes, which are containers of this machine: %w; or give --image", err)
	}
	words := fmt.Sprintf("this program, as %s: the nodes are containers of this machine, and %d of %d did not have it yet", reference, len(missing), len(nodes))
	return proberImage{reference: reference, words: words, engine: eng, loaded: missing}, nil
}

// remove removes the image from the nodes into which it was loaded.
func (i proberImage) remove(ctx context.Context) error {
	if len(i.loaded) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), imageRemoval)
	defer cancel()
	return nodeimages.Remove(ctx, i.engine, i.reference, i.loaded)
}
