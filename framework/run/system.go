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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/queue"
	"github.com/spotdrill/spotdrill/kind"
)

// upstreamIP is the cluster IP of the resolver for external names; it lies in
// kind's service range, in the lower band that Kubernetes leaves for fixed ones.
const upstreamIP = "10.96.0.53"

const poll = 100 * time.Millisecond

// Options say which system is wanted.
type Options struct {
	// Cluster names the kind cluster, the queue, and what belongs to them.
	Cluster string
	// ProxyMode is kube-proxy's: iptables or nftables.
	ProxyMode string
	// Source is the checkout that images are built from where no registry
	// answers.
	Source string
	// Binary is the static spotdrill binary that runs in the cluster.
	Binary string
	// Log receives lines for the user.
	Log func(format string, args ...any)
}

// DefaultCluster is the cluster's name unless the user gives another.
const DefaultCluster = "spotdrill"

// System is everything that a drill needs, up and running.
type System struct {
	Cluster *cluster.Cluster
	AWS     *queue.AWS
	// Environment holds the versions of the parts, for histories and reports.
	Environment map[string]string

	opts      Options
	engine    *engine.Engine
	image     string // of our own binary, as the nodes know it
	installed *handler.Description
	settings  handler.Settings
}

// Up brings the system up, or finds the one that an earlier run left in good
// order. What an earlier run left dead, half made or outdated is made anew.
func Up(ctx context.Context, opts Options) (*System, error) {
	s := &System{opts: opts}
	var err error
	if s.engine, err = detect(ctx, opts); err != nil {
		return nil, err
	}
	nodes, err := kind.NodeImage(ctx, s.engine, kind.ImageOptions{Source: opts.Source, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	localstack, err := kind.LocalStackImage(ctx, s.engine, kind.ImageOptions{Source: opts.Source, Log: opts.Log})
	if err != nil {
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
	state, err := engine.StateDir()
	if err != nil {
		return cluster.Options{}, err
	}
	return cluster.Options{
		Name: s.opts.Cluster, Network: s.opts.Cluster, Image: nodes, ProxyMode: s.opts.ProxyMode,
		KubeconfigDir: filepath.Join(state, "kubeconfig"), Log: s.opts.Log,
	}, nil
}

// step runs a part of the set-up and says how long it took.
func (s *System) step(name string, f func() error) error {
	start := time.Now()
	if err := f(); err != nil {
		return err
	}
	s.opts.Log("  %-46s %5.1f s", name, time.Since(start).Seconds())
	return nil
}

// systemManifests is the text of everything that is put into the cluster when it
// is made.
func systemManifests() string {
	text := ""
	for _, file := range []string{"upstream.yaml", "proxy-service.yaml"} {
		b, err := manifests.ReadFile("manifests/" + file)
		if err != nil {
			panic(fmt.Sprintf("embedded manifest %s: %v", file, err))
		}
		text += string(b)
	}
	return text
}

// reuse says why the system of an earlier run cannot be used, or "" after it
// took it over. Its errors are those that making anew would not mend.
func (s *System) reuse(ctx context.Context, opts cluster.Options, digest string) (string, error) {
	c, err := cluster.Open(ctx, s.engine, opts)
	if err != nil {
		return "", err
	}
	if c == nil {
		return "there is none yet", nil
	}
	if err := c.Connect(ctx); err != nil {
		return err.Error(), nil
	}
	was, err := c.Digest(ctx)
	if err != nil {
		return err.Error(), nil
	}
	if was != digest {
		return "it was made from other versions or settings", nil
	}
	if err := s.confine(ctx); err != nil {
		return "", err
	}
	endpoint, err := s.localStackEndpoint(ctx)
	if err != nil {
		return err.Error(), nil
	}
	aws := queue.Connect(endpoint, kind.Region)
	instances, err := aws.Instances(ctx, opts.Name)
	if err != nil {
		return err.Error(), nil
	}
	for _, n := range c.Nodes {
		if n.Capacity != cluster.ControlPlane && (n.Instance == "" || instances[n.Name] != n.Instance) {
			return fmt.Sprintf("LocalStack does not know instance %s of node %s: it was restarted", n.Instance, n.Name), nil
		}
	}
	if err := aws.DeployStack(ctx, opts.Name); err != nil {
		return err.Error(), nil
	}
	s.Cluster, s.AWS = c, aws
	err = s.step("cluster of the last run, restored", func() error {
		// First the nodes that are down, then the wiring, which nodes may have
		// lost or a newer version may do differently.
		if err := s.Restore(ctx); err != nil {
			return err
		}
		return c.Wire(ctx)
	})
	if err != nil {
		s.Cluster, s.AWS = nil, nil
		return err.Error(), nil
	}
	return "", nil
}

// makeAnew removes what there is of ours and makes the system from nothing.
func (s *System) makeAnew(ctx context.Context, opts cluster.Options, localstack, digest, why string) error {
	s.opts.Log("making the cluster anew: %s", why)
	if err := remove(ctx, s.engine, opts); err != nil {
		return err
	}
	return s.step("network, LocalStack and cluster", func() error {
		if _, err := s.engine.EnsureNetwork(ctx, opts.Network, map[string]string{cluster.Label: "true"}); err != nil {
			return err
		}
		if err := s.confine(ctx); err != nil {
			return err
		}
		if err := s.step("LocalStack", func() error { return s.startLocalStack(ctx, localstack) }); err != nil {
			return err
		}
		instances, err := s.AWS.RunInstances(ctx, opts.Name, cluster.WorkerNames(opts.Name))
		if err != nil {
			return err
		}
		opts.Instances = instances
		if err := s.step("kind cluster", func() (err error) { s.Cluster, err = cluster.Create(ctx, s.engine, opts); return err }); err != nil {
			return err
		}
		return s.step("network, CoreDNS and upstream", func() error { return s.furnish(ctx, digest) })
	})
}

// confine keeps the network's packets on this machine before the first one is
// sent. Without root on the engine's host, the rules inside each node do.
func (s *System) confine(ctx context.Context) error {
	err := s.engine.ConfineNetwork(ctx, s.opts.Cluster)
	if errors.Is(err, engine.ErrNeedsRoot) {
		s.opts.Log("  not root on the engine's host: packets are kept in by rules inside each node")
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep the network's packets on this machine: %w", err)
	}
	return nil
}

// furnish turns a bare kind cluster into the one that drills expect.
func (s *System) furnish(ctx context.Context, digest string) error {
	if err := s.Cluster.Connect(ctx); err != nil {
		return err
	}
	image, err := s.Cluster.ForwardDNS(ctx, upstreamIP)
	if err != nil {
		return err
	}
	if err := s.Cluster.Wire(ctx); err != nil {
		return err
	}
	if err := s.ensureNamespace(ctx, Namespace); err != nil {
		return err
	}
	if err := s.create(ctx, "upstream.yaml", map[string]string{"NAMESPACE": Namespace, "UPSTREAM_IP": upstreamIP, "COREDNS_IMAGE": image}); err != nil {
		return err
	}
	if err := s.create(ctx, "proxy-service.yaml", map[string]string{"NAMESPACE": Namespace}); err != nil {
		return err
	}
	if err := s.Cluster.WaitReady(ctx); err != nil {
		return err
	}
	if err := s.deploymentReady(ctx, Namespace, "upstream"); err != nil {
		return err
	}
	if err := s.Cluster.Favour(ctx); err != nil {
		return err
	}
	return s.Cluster.WriteState(ctx, digest)
}

// prepare brings this build of the product into the cluster.
func (s *System) prepare(ctx context.Context) error {
	err := s.step("product image in the nodes", func() (err error) {
		s.image, err = s.Cluster.LoadBinary(ctx, s.opts.Binary)
		return err
	})
	if err != nil {
		return err
	}
	return s.step("recording proxy", func() error { return s.startProxy(ctx) })
}

// startProxy puts a proxy of this build between handlers and LocalStack.
func (s *System) startProxy(ctx context.Context) error {
	upstream, err := s.engine.ContainerIP(ctx, s.localStackName(), s.opts.Cluster)
	if err != nil {
		return err
	}
	if err := s.removePod(ctx, Namespace, "queue-proxy"); err != nil {
		return err
	}
	if err := s.create(ctx, "proxy.yaml", map[string]string{"NAMESPACE": Namespace, "IMAGE": s.image, "UPSTREAM": "http://" + upstream + ":4566"}); err != nil {
		return err
	}
	svc, err := s.Cluster.Clientset.CoreV1().Services(Namespace).Get(ctx, "queue-proxy", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Service queue-proxy: %w", err)
	}
	endpoint := "http://" + svc.Spec.ClusterIP + ":4566"
	s.settings = handler.Settings{
		QueueURL: s.AWS.QueueURL(endpoint), QueueName: s.opts.Cluster, Endpoint: endpoint,
		Region: kind.Region, ClusterName: s.opts.Cluster, Image: s.image,
	}
	return s.podReady(ctx, Namespace, "queue-proxy")
}

// environment collects what a reader must know to repeat the run.
func (s *System) environment(ctx context.Context, nodes, localstack string) map[string]string {
	env := map[string]string{
		"cluster": s.opts.Cluster, "node-image": nodes, "localstack-image": localstack,
		"engine": s.engine.Name, "kube-proxy": s.opts.ProxyMode,
	}
	if v, err := s.engine.Run(ctx, "version", "--format", "{{.Client.Version}}"); err == nil {
		env["engine"] += " " + v
	}
	if list, err := s.Cluster.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil && len(list.Items) > 0 {
		info := list.Items[0].Status.NodeInfo
		env["kubernetes"], env["kernel"], env["container-runtime"] = info.KubeletVersion, info.KernelVersion, info.ContainerRuntimeVersion
		env["cores"] = list.Items[0].Status.Capacity.Cpu().String()
	}
	return env
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
	state, err := engine.StateDir()
	if err != nil {
		return err
	}
	err = remove(ctx, eng, cluster.Options{Name: opts.Cluster, Network: opts.Cluster, Log: opts.Log})
	kubeconfig := filepath.Join(state, "kubeconfig", opts.Cluster+".kubeconfig")
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
