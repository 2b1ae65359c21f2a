// Package run plays a scenario on a real cluster and leaves its history. It
// puts the parts together (cluster, queue, handler, prober), and judges nothing.
package run

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/kind"
)

// upstreamIP is the cluster IP of the resolver for external names; it lies in
// kind's service range, in the lower band that Kubernetes leaves for fixed ones.
const upstreamIP = "10.96.0.53"

const poll = 100 * time.Millisecond

// Options say which system is wanted.
type Options struct {
	// Cluster names the kind cluster, the queue, and what belongs to them.
	Cluster   string
	ProxyMode history.ProxyMode
	// Source is the checkout that images are built from where no registry
	// answers.
	Source string
	// Binary is the static spotdrill binary that runs in the cluster.
	Binary string
	// Log receives lines for the user; it must be set.
	Log func(format string, args ...any)
}

// DefaultCluster is the cluster's name unless the user gives another.
const DefaultCluster = "spotdrill"

// System is everything that a drill needs, up and running.
type System struct {
	Cluster *cluster.Cluster
	AWS     *cloud.AWS
	// Environment holds the versions of the parts, for histories and reports.
	Environment map[string]string

	opts      Options
	engine    *engine.Engine
	image     string            // of our own binary, as the nodes know it
	images    map[string]string // of handlers, by the file of their description
	installed *handler.Description
	unready   bool // installed is not ready: not yet, or it failed
	paused    bool // installed is stopped while its workers are given back
	settings  handler.Settings
	drills    int // begun so far
}

// Up brings the system up, or finds the one that an earlier run left in good
// order. What an earlier run left dead, half made or outdated is made anew.
func Up(ctx context.Context, opts Options) (*System, error) {
	s := &System{opts: opts, images: map[string]string{}}
	var err error
	if s.engine, err = detect(ctx, opts); err != nil {
		return nil, err
	}
	// Building one of them mostly waits for downloads, the other for the compiler.
	var nodes, localstack string
	images := kind.ImageOptions{Source: opts.Source, Log: opts.Log}
	err = together(ctx,
		func(ctx context.Context) (err error) { nodes, err = kind.NodeImage(ctx, s.engine, images); return err },
		func(ctx context.Context) (err error) {
			localstack, err = kind.LocalStackImage(ctx, s.engine, images)
			return err
		})
	if err != nil {
		return nil, err
	}
	if err := s.checkProxyMode(ctx, nodes); err != nil {
		return nil, err
	}
	clusterOpts, err := s.clusterOptions(nodes)
	if err != nil {
		return nil, err
	}
	digest, err := clusterOpts.Digest()
	if err != nil {
		return nil, err
	}
	digest = fmt.Sprintf("%x", sha256.Sum256([]byte(digest+localstack+systemManifests())))[:16]
	why, err := s.reuse(ctx, clusterOpts, digest)
	if err != nil {
		return nil, err
	}
	if why != "" {
		if err := s.makeAnew(ctx, clusterOpts, localstack, digest, why); err != nil {
			return nil, err
		}
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	s.Environment = s.environment(ctx, nodes, localstack)
	return s, nil
}

// ErrNoIPVS is why no system can be brought up with kube-proxy in mode IPVS.
var ErrNoIPVS = errors.New("kube-proxy's mode ipvs: this machine's kernel has no IPVS")

func (s *System) checkProxyMode(ctx context.Context, nodes string) error {
	if s.opts.ProxyMode != history.IPVS {
		return nil
	}
	has, err := s.engine.HasIPVS(ctx, nodes)
	if err == nil && !has {
		err = ErrNoIPVS
	}
	return err
}

func detect(ctx context.Context, opts Options) (*engine.Engine, error) {
	eng, err := engine.Detect(ctx, engine.Options{Log: opts.Log, Install: true})
	if err != nil {
		return nil, err
	}
	if err := eng.PrepareHost(engine.Options{Log: opts.Log}); err != nil {
		return nil, err
	}
	return eng, eng.Apply(opts.Cluster)
}

func (s *System) clusterOptions(nodes string) (cluster.Options, error) {
	kubeconfig, err := Kubeconfig(s.opts.Cluster)
	if err != nil {
		return cluster.Options{}, err
	}
	return cluster.Options{
		Name: s.opts.Cluster, Network: s.opts.Cluster, Image: nodes, ProxyMode: string(s.opts.ProxyMode),
		KubeconfigDir: filepath.Dir(kubeconfig),
	}, nil
}

// Kubeconfig is the file that gives access to a cluster of ours.
func Kubeconfig(cluster string) (string, error) {
	state, err := engine.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "kubeconfig", cluster+".kubeconfig"), nil
}

// Down removes the cluster, LocalStack and their network, and nothing else.
func Down(ctx context.Context, opts Options) error {
	eng, err := engine.Detect(ctx, engine.Options{Log: opts.Log})
	if err != nil {
		return err
	}
	if err := eng.Apply(opts.Cluster); err != nil {
		return err
	}
	kubeconfig, err := Kubeconfig(opts.Cluster)
	if err != nil {
		return err
	}
	err = remove(ctx, eng, cluster.Options{Name: opts.Cluster, Network: opts.Cluster})
	if rm := os.Remove(kubeconfig); rm != nil && !errors.Is(rm, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove kubeconfig: %w", rm))
	}
	return err
}

func remove(ctx context.Context, eng *engine.Engine, opts cluster.Options) error {
	if _, err := eng.Network(ctx, opts.Network); err == nil {
		if _, err := eng.EnsureNetwork(ctx, opts.Network, map[string]string{cluster.Label: "true"}); err != nil {
			return err
		}
	}
	c, err := cluster.Open(ctx, eng, opts)
	if err != nil {
		return err
	}
	if c != nil {
		if err := c.Delete(ctx); err != nil {
			return err
		}
	}
	if err := eng.Remove(ctx, localStackName(opts.Name)); err != nil {
		return err
	}
	if _, err := eng.Network(ctx, opts.Network); errors.Is(err, engine.ErrNoNetwork) {
		return nil
	}
	if err := eng.ReleaseNetwork(ctx, opts.Network); err != nil && !errors.Is(err, engine.ErrNeedsRoot) {
		return err
	}
	return eng.RemoveNetwork(ctx, opts.Network)
}
