// Package cluster is the kind cluster that drills run on: its life, its nodes
// as instances, its CoreDNS settings, and the watcher that records what happens
// in it.
package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/klient"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	kindlog "sigs.k8s.io/kind/pkg/log"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/kind"
)

// Label marks nodes and networks as spotdrill's own.
const Label = "spotdrill.dev/owned"

// Timeouts of the cluster's life. They bound waits for conditions; nothing
// sleeps for as long.
const (
	// createTimeout bounds the creation of the kind cluster; 35 s is usual on
	// two cores.
	createTimeout = 5 * time.Minute
	// readyTimeout bounds the wait for nodes and CoreDNS after a change.
	readyTimeout = 2 * time.Minute
	poll         = 200 * time.Millisecond
)

// Cluster is a running kind cluster.
type Cluster struct {
	Name    string
	Network string
	// Nodes in the order of their names: control plane, on-demand, spot.
	Nodes []Node

	Config    *rest.Config
	Clientset kubernetes.Interface
	Klient    klient.Client

	engine   *engine.Engine
	provider *kindcluster.Provider
	// staticFree is true where no node has a static pod of ours.
	staticFree bool
	// unwired is true where a node may have no network, or one of before.
	unwired bool
}

// Node is a kind node dressed as an EC2 instance.
type Node struct {
	Name     string
	Capacity string // control-plane, on-demand or spot
	Instance string // EC2 instance id; empty for the control plane and for a worker that is lost
}

// Options describe the cluster that is wanted.
type Options struct {
	Name      string
	Network   string // the engine's network; exists, and is ours
	Image     string // of the nodes
	ProxyMode string // iptables, nftables or ipvs
	// KubeconfigDir is where the kubeconfig is written, and the files that nodes
	// mount; the user's own kubeconfig is never touched.
	KubeconfigDir string
}

// Open finds the kind cluster of that name without asking whether it works.
// It returns nil and no error when there is none.
func Open(ctx context.Context, eng *engine.Engine, opts Options) (*Cluster, error) {
	c := New(eng, opts)
	names, err := c.provider.List()
	if err != nil {
		return nil, fmt.Errorf("list kind clusters: %w", err)
	}
	if !slices.Contains(names, opts.Name) {
		return nil, nil
	}
	return c, c.refuseForeign(ctx)
}

// New is a cluster that is to be created.
func New(eng *engine.Engine, opts Options) *Cluster {
	use := kindcluster.ProviderWithDocker()
	if eng.Name == "podman" {
		use = kindcluster.ProviderWithPodman()
	}
	return &Cluster{
		Name: opts.Name, Network: opts.Network, engine: eng,
		provider: kindcluster.NewProvider(use, kindcluster.ProviderWithLogger(kindlog.NoopLogger{})),
	}
}

// refuseForeign is an error when the cluster's containers are not on our own
// network: somebody else made a cluster of the same name.
func (c *Cluster) refuseForeign(ctx context.Context) error {
	containers, err := c.provider.ListNodes(c.Name)
	if err != nil {
		return fmt.Errorf("list nodes of kind cluster %s: %w", c.Name, err)
	}
	for _, n := range containers {
		networks, err := c.engine.Run(ctx, "inspect", "--type", "container", "--format", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}", n.String())
		if err != nil {
			return fmt.Errorf("inspect node %s: %w", n, err)
		}
		if !slices.Contains(strings.Fields(networks), c.Network) {
			return fmt.Errorf("a kind cluster named %q exists that spotdrill did not make (node %s is not on network %s); remove it with `kind delete cluster --name %s`, or choose another name with --cluster", c.Name, n, c.Network, c.Name)
		}
	}
	return nil
}

// Configured waits until kind, in Create, is done with the nodes' containerd, which
// it starts a second time: kubeadm comes next, and first makes a folder for keys.
func (c *Cluster) Configured(ctx context.Context) error {
	return Until(ctx, createTimeout, "kubeadm to begin", func(ctx context.Context) string {
		if _, err := c.engine.Exec(ctx, c.Name+"-control-plane", nil, "test", "-e", "/etc/kubernetes/pki"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// Create makes the cluster's nodes and its control plane. They are without a
// network, and without instances, until Wire and SetInstances.
func (c *Cluster) Create(ctx context.Context, opts Options) error {
	config, err := opts.render()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(opts.KubeconfigDir, 0o755); err != nil {
		return fmt.Errorf("make kubeconfig folder: %w", err)
	}
	for name, content := range kind.Mounted() {
		if err := os.WriteFile(filepath.Join(opts.KubeconfigDir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write a file that nodes mount: %w", err)
		}
	}
	done := make(chan error, 1)
	go func() {
		done <- c.provider.Create(opts.Name,
			kindcluster.CreateWithRawConfig(config),
			kindcluster.CreateWithNodeImage(opts.Image),
			kindcluster.CreateWithKubeconfigPath(filepath.Join(opts.KubeconfigDir, opts.Name+".kubeconfig")),
			kindcluster.CreateWithRetain(false),
			kindcluster.CreateWithDisplayUsage(false),
			kindcluster.CreateWithDisplaySalutation(false))
	}()
	// kind's Create takes no context: when ours ends, what it made so far is
	// removed after it returned.
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), <-done, c.Delete(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return fmt.Errorf("create kind cluster %s: %w", opts.Name, err)
	}
	return nil
}

// render is kind's configuration for the cluster.
func (o Options) render() ([]byte, error) {
	return kind.Render(o.Image, o.KubeconfigDir, o.ProxyMode)
}

// Digest stands for everything that the cluster is made from.
func (o Options) Digest() (string, error) {
	config, err := o.render()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(config, kind.Mounted())))[:16], nil
}

// WorkerNames are the names that kind gives to the workers: the first is the
// on-demand one, the others are spot.
func WorkerNames(cluster string) []string {
	return []string{cluster + "-worker", cluster + "-worker2", cluster + "-worker3", cluster + "-worker4"}
}

// Connect makes the clients. It fails when the API server does not answer.
func (c *Cluster) Connect(ctx context.Context) error {
	kubeconfig, err := c.provider.KubeConfig(c.Name, false)
	if err != nil {
		return fmt.Errorf("read kubeconfig of cluster %s: %w", c.Name, err)
	}
	c.Config, err = clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		return fmt.Errorf("parse kubeconfig of cluster %s: %w", c.Name, err)
	}
	// The recorder, the steps and the restore share one client: client-go's
	// default of 5 requests a second would delay what is being measured.
	c.Config.QPS, c.Config.Burst = 200, 400
	if c.Clientset, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if c.Klient, err = klient.New(c.Config); err != nil {
		return fmt.Errorf("make klient: %w", err)
	}
	return c.loadNodes(ctx)
}

// Delete removes the cluster's containers.
func (c *Cluster) Delete(ctx context.Context) error {
	containers, err := c.provider.ListNodes(c.Name)
	if err != nil {
		return fmt.Errorf("list nodes of kind cluster %s: %w", c.Name, err)
	}
	for _, n := range containers {
		// Podman would give each ten seconds to stop; one that is down already
		// is an error here and none for what follows.
		_ = c.engine.Kill(ctx, n.String())
	}
	if err := c.provider.Delete(c.Name, filepath.Join(os.TempDir(), "spotdrill-no-kubeconfig")); err != nil {
		return fmt.Errorf("delete kind cluster %s: %w", c.Name, err)
	}
	return nil
}
