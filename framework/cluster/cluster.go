// Package cluster is the kind cluster that drills run on: its creation and deletion, its
// nodes as EC2 instances, their network, and how they are restored.
package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	kindnodes "sigs.k8s.io/kind/pkg/cluster/nodes"
	kindlog "sigs.k8s.io/kind/pkg/log"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// Label marks nodes and networks as spotdrill's own.
const Label = "spotdrill.dev/owned"

// appLabel names the part of Kubernetes that a pod belongs to.
const appLabel = "k8s-app"

// Timeouts of waits for conditions. Nothing sleeps that long.
const (
	// createTimeout bounds the creation of the kind cluster, which usually takes 35 s on
	// two cores.
	createTimeout = 5 * time.Minute
	// readyTimeout bounds the wait for nodes and CoreDNS after a change.
	readyTimeout = 2 * time.Minute
)

// Cluster is a running kind cluster.
type Cluster struct {
	Name    string
	Network string
	// Nodes in the order of their names: control plane, on-demand, spot.
	Nodes []Node

	Config    *rest.Config
	Clientset kubernetes.Interface
	API       client.Client // for objects of any kind
	Token     string        // of requests to our pods, see package guard

	engine   *engine.Engine
	provider *kindcluster.Provider
	// lane is the name of a Lane, else empty; named is how many nodes of it were named.
	lane  string
	named int
	// staticFree is set if no node has a static pod of ours.
	staticFree bool
	// networkOutdated is set if a node may have no pod network, or an outdated one.
	networkOutdated bool
	// newcomers are the nodes that are to get the pod network.
	newcomers newcomers
	// notRaised is why the engine did not raise a node's CPU weight.
	notRaised error
}

// Node is a kind node that stands for an EC2 instance.
type Node struct {
	Name     string
	Capacity string // control-plane, on-demand or spot
	Instance string // EC2 instance id; empty for the control plane and for a lost worker
	Zone     string // availability zone
}

// Options describe a cluster.
type Options struct {
	Name      string
	Network   string // of the engine; exists and is ours
	Nodes     kind.Nodes
	CoreDNS   string // its version
	ProxyMode string // iptables, nftables or ipvs
	// MinSyncPeriod is kube-proxy's; 0: Kubernetes' default.
	MinSyncPeriod time.Duration
	// Spares is how many spare workers a new cluster gets.
	Spares int
	// KubeconfigDir is the folder for the kubeconfig and the files that nodes mount. The
	// user's own kubeconfig is never changed.
	KubeconfigDir string
}

// Open finds the kind cluster of that name without checking whether it works. It returns
// nil and no error if there is none.
func Open(ctx context.Context, eng *engine.Engine, opts Options) (*Cluster, error) {
	c := New(eng, opts)
	names, err := c.provider.List()
	if err != nil {
		return nil, fmt.Errorf("list kind clusters: %w", err)
	}
	if !slices.Contains(names, opts.Name) {
		return nil, nil
	}
	if err := c.refuseForeign(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// New returns a cluster that does not exist yet.
func New(eng *engine.Engine, opts Options) *Cluster {
	use := kindcluster.ProviderWithDocker()
	if eng.Name == "podman" {
		use = kindcluster.ProviderWithPodman()
	}
	return &Cluster{
		Name: opts.Name, Network: opts.Network, engine: eng,
		networkOutdated: true, // as far as is known: an earlier process may have been killed
		provider:        kindcluster.NewProvider(use, kindcluster.ProviderWithLogger(kindlog.NoopLogger{})),
	}
}

// refuseForeign returns an error if the cluster's containers are not on our own network:
// then somebody else created a cluster of the same name.
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

// Configured waits until Create has configured the nodes' containerd, which kind restarts
// for that. The next is kubeadm, which begins with a folder for keys.
func (c *Cluster) Configured(ctx context.Context) error {
	return wait.Until(ctx, createTimeout, "kubeadm to start", func(ctx context.Context) string {
		if _, err := c.engine.Exec(ctx, c.Name+"-control-plane", nil, "test", "-e", "/etc/kubernetes/pki"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// render returns kind's configuration for the cluster.
func (o Options) render(spares int) ([]byte, error) {
	return kind.Config{
		NodeImage: o.Nodes.Image, Kubernetes: o.Nodes.Kubernetes, CoreDNS: o.CoreDNS, Mounts: o.KubeconfigDir, ProxyMode: o.ProxyMode, MinSyncPeriod: o.MinSyncPeriod, Spares: spares,
	}.Render()
}

// Digest identifies everything that the cluster is created from, but for the number of spare
// workers: one that has more than are needed can be used as well.
func (o Options) Digest() (string, error) {
	config, err := o.render(0)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(config, kind.Mounted())))[:16], nil
}

// WorkerNames returns the names that kind gives to the workers. The first worker is
// on-demand, the others are spot.
func WorkerNames(cluster string) []string {
	return []string{cluster + "-worker", cluster + "-worker2", cluster + "-worker3", cluster + "-worker4"}
}

// Connect creates the clients. It fails if the API server does not answer.
func (c *Cluster) Connect(ctx context.Context) error {
	kubeconfig, err := c.provider.KubeConfig(c.Name, false)
	if err != nil {
		return fmt.Errorf("read kubeconfig of cluster %s: %w", c.Name, err)
	}
	c.Config, err = clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		return fmt.Errorf("parse kubeconfig of cluster %s: %w", c.Name, err)
	}
	// Recorder, steps and restore share one client: client-go's default of 5 requests per
	// second would delay what is measured.
	c.Config.QPS, c.Config.Burst = 200, 400
	// An API server's advice on our own objects is not for the user of a drill.
	c.Config.WarningHandler = rest.NoWarnings{}
	if c.Clientset, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if c.API, err = client.New(c.Config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return fmt.Errorf("create client for objects of any kind: %w", err)
	}
	return c.loadNodes(ctx)
}

// Objects has access to the cluster's objects.
func (c *Cluster) Objects() objects.Client {
	return objects.Client{Clientset: c.Clientset, API: c.API, Token: c.Token}
}

// Delete removes the cluster's containers.
func (c *Cluster) Delete(ctx context.Context) error {
	containers, err := c.provider.ListNodes(c.Name)
	if err != nil {
		return fmt.Errorf("list nodes of kind cluster %s: %w", c.Name, err)
	}
	// The control plane last, whose name is the first of all: Docker asks the host's resolver for the name of a container
	// that is gone, and kubelets look that one up every few seconds.
	slices.SortFunc(containers, func(a, b kindnodes.Node) int { return strings.Compare(b.String(), a.String()) })
	for _, n := range containers {
		// Podman would give each container ten seconds to stop. The error for one that is
		// already stopped does not matter.
		_ = c.engine.Kill(ctx, n.String())
	}
	return wrap.Errorf(c.provider.Delete(c.Name, filepath.Join(os.TempDir(), "spotdrill-no-kubeconfig")), "delete kind cluster %s", c.Name)
}
