package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/kind"
)

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
	was, err := ask(ctx, c)
	if err != nil && ctx.Err() != nil {
		return "", err
	}
	if err != nil {
		return err.Error(), nil
	}
	if was != digest {
		return "it was made from other versions or settings", nil
	}
	if err := s.confine(ctx); err != nil {
		return "", err
	}
	endpoint, err := s.LocalStack(ctx)
	if err != nil {
		return err.Error(), nil
	}
	aws := cloud.Connect(endpoint, kind.Region)
	instances, err := aws.Instances(ctx, opts.Name)
	if err != nil {
		return err.Error(), nil
	}
	for _, n := range c.Nodes {
		// One without an instance is given another below.
		if n.Capacity != cluster.ControlPlane && n.Instance != "" && instances[n.Name] != n.Instance {
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

// answerTimeout bounds the questions to a cluster that an earlier run left: one
// that is dead may also be silent.
const answerTimeout = 20 * time.Second

// ask connects to a cluster of before and reads what it was made from.
func ask(ctx context.Context, c *cluster.Cluster) (digest string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := c.Connect(ctx); err != nil {
		return "", err
	}
	return c.Digest(ctx)
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
		var instances map[string]string
		s.Cluster = cluster.New(s.engine, opts)
		err := together(ctx,
			func(ctx context.Context) error {
				return s.step("kind cluster", func() error { return s.Cluster.Create(ctx, opts) })
			},
			func(ctx context.Context) error {
				// What comes before keeps every core busy, kubeadm does not.
				if err := s.Cluster.Configured(ctx); err != nil {
					return err
				}
				return together(ctx, s.loadImage, func(ctx context.Context) error {
					return s.step("LocalStack", func() (err error) { instances, err = s.makeQueue(ctx, localstack); return err })
				})
			})
		if err != nil {
			return err
		}
		// Podman made the bridge with the first container.
		if err := s.engine.KeepBridgeAddress(ctx, opts.Network); err != nil && !errors.Is(err, engine.ErrNeedsRoot) {
			return err
		}
		return s.step("network, instances and CoreDNS", func() error { return s.furnish(ctx, instances, digest) })
	})
}

// makeQueue starts LocalStack with the workers' instances, and with the queue and
// its rules.
func (s *System) makeQueue(ctx context.Context, image string) (instances map[string]string, err error) {
	if err := s.startLocalStack(ctx, image); err != nil {
		return nil, err
	}
	if instances, err = s.AWS.RunInstances(ctx, s.opts.Cluster, cluster.WorkerNames(s.opts.Cluster)); err != nil {
		return nil, err
	}
	return instances, s.AWS.DeployStack(ctx, s.opts.Cluster)
}

// together runs parts of the set-up at the same time.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
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
func (s *System) furnish(ctx context.Context, instances map[string]string, digest string) error {
	if err := s.Cluster.Connect(ctx); err != nil {
		return err
	}
	if err := s.Cluster.SetInstances(ctx, instances); err != nil {
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
	if err := s.loadImage(ctx); err != nil {
		return err
	}
	return s.step("recording proxy", func() error { return s.startProxy(ctx) })
}

// loadImage puts the product's image into the nodes, once.
func (s *System) loadImage(ctx context.Context) error {
	if s.image != "" {
		return nil
	}
	return s.step("product image in the nodes", func() (err error) {
		s.image, err = s.Cluster.LoadBinary(ctx, s.opts.Binary)
		return err
	})
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
	if s.settings, err = s.findSettings(ctx, "http://"+svc.Spec.ClusterIP+":4566"); err != nil {
		return err
	}
	return s.podReady(ctx, "queue-proxy")
}

// findSettings collects what handlers are told of the system, AWS being at
// endpoint.
func (s *System) findSettings(ctx context.Context, endpoint string) (handler.Settings, error) {
	api, err := s.Cluster.Clientset.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return handler.Settings{}, fmt.Errorf("read Service kubernetes: %w", err)
	}
	network, err := s.AWS.Network(ctx)
	if err != nil {
		return handler.Settings{}, err
	}
	return handler.Settings{
		QueueURL: s.AWS.QueueURL(endpoint), QueueName: s.opts.Cluster, Endpoint: endpoint,
		Region: kind.Region, ClusterName: s.opts.Cluster, ClusterEndpoint: "https://" + api.Spec.ClusterIP,
		AMI: network.AMI, Subnet: network.Subnet, SecurityGroup: network.SecurityGroup, Image: s.image,
	}, nil
}
