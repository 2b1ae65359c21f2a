package system

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/kubeproxy"
	"github.com/spotdrill/spotdrill/framework/nodeimages"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// timed runs a part of the set-up and logs how long it took.
func (s *System) timed(name string, f func() error) error {
	start := time.Now()
	if err := f(); err != nil {
		return err
	}
	s.opts.Log("  %-46s %5.1f s", name, time.Since(start).Seconds())
	return nil
}

// clusterManifests is the text of everything that a new cluster gets.
func clusterManifests() string {
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

// reuse returns why the system of an earlier run cannot be used, or "" once it is
// taken over. An error is one that a new system would not fix.
func (s *System) reuse(ctx context.Context, opts cluster.Options, from cluster.Origin) (string, error) {
	c, err := cluster.Open(ctx, s.engine, opts)
	if err != nil {
		return "", err
	}
	if c == nil {
		return "there is none yet", nil
	}
	was, err := originOf(ctx, c)
	if err != nil && ctx.Err() != nil {
		return "", err
	}
	if err != nil {
		return becauseOf(err)
	}
	if why := whyOther(was, from); why != "" {
		return why, nil
	}
	spares, err := c.Spares().Names()
	if err != nil {
		return "", err
	}
	if len(spares) < opts.Spares {
		return fmt.Sprintf("it has %s, and %d are required", history.Count(len(spares), "spare worker"), opts.Spares), nil
	}
	if err := s.confine(ctx); err != nil {
		return "", err
	}
	endpoint, err := s.LocalStack(ctx)
	if err != nil {
		return becauseOf(err)
	}
	if err := s.proveConfined(ctx); err != nil {
		return "", err
	}
	aws := cloud.Connect(endpoint, kind.Region)
	instances, err := aws.Instances(ctx, opts.Name)
	if err != nil {
		return becauseOf(err)
	}
	for _, n := range c.Nodes {
		// A node without an instance gets another one below.
		if n.Capacity != nodes.ControlPlane && n.Instance != "" && instances[n.Name] != n.Instance {
			return fmt.Sprintf("LocalStack does not know instance %s of node %s: it was restarted", n.Instance, n.Name), nil
		}
	}
	if err := aws.DeployStack(ctx, opts.Name); err != nil {
		return becauseOf(err)
	}
	s.Cluster, s.AWS = c, aws
	s.connected()
	if err := s.takeToken(ctx); err != nil {
		s.Cluster, s.AWS = nil, nil
		return becauseOf(err)
	}
	if err := s.startLaunches(ctx); err != nil {
		s.Cluster, s.AWS = nil, nil
		return becauseOf(err)
	}
	err = s.timed("cluster of the last run, restored", func() error {
		// First the nodes that are down, then the pod network, which nodes may have
		// lost or a newer version may do differently.
		if _, err := s.Restore(ctx, Joining{}); err != nil {
			return err
		}
		if err := kubeproxy.Restore(ctx, c.Clientset); err != nil { // of a run that was killed
			return err
		}
		return c.SetUpNetwork(ctx)
	})
	if err != nil {
		s.Cluster, s.AWS = nil, nil
		return becauseOf(err)
	}
	return "", nil
}

// becauseOf makes an error the reason to create a new system.
func becauseOf(err error) (why string, none error) {
	return "the one of an earlier run does not answer: " + err.Error(), nil
}

// answerTimeout bounds the requests to a cluster that an earlier run left: a dead
// one may never answer.
const answerTimeout = 20 * time.Second

// originOf connects to an existing cluster and reads what it was created from.
func originOf(ctx context.Context, c *cluster.Cluster) (cluster.Origin, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := c.Connect(ctx); err != nil {
		return cluster.Origin{}, err
	}
	return c.Origin(ctx)
}

// whyOther is why a cluster that was created from something is not the one that is wanted; "" if it is.
func whyOther(was, want cluster.Origin) string {
	switch {
	case was.Digest == want.Digest:
		return ""
	case was.Versions != "" && was.Versions != want.Versions:
		return fmt.Sprintf("the one of an earlier run has %s; %s are wanted", was.Versions, want.Versions)
	}
	return "the one of an earlier run was created from other images or settings"
}

// create removes what is left of our system and builds it from nothing.
func (s *System) create(ctx context.Context, opts cluster.Options, localstack string, from cluster.Origin, why string) error {
	s.opts.Log("creating the cluster: %s", why)
	if _, err := remove(ctx, s.engine, opts); err != nil {
		return err
	}
	err := s.timed("network, LocalStack and cluster", func() error {
		if _, err := s.engine.EnsureNetwork(ctx, opts.Network, map[string]string{cluster.Label: "true"}); err != nil {
			return err
		}
		if err := s.confine(ctx); err != nil {
			return err
		}
		instances, err := s.createParts(ctx, opts, localstack)
		if err != nil {
			return err
		}
		// Podman created the bridge with the first container.
		if err := s.engine.KeepBridgeAddress(ctx, opts.Network); err != nil && !errors.Is(err, engine.ErrNeedsRoot) {
			return err
		}
		return s.timed("network, instances and CoreDNS", func() error { return s.furnish(ctx, instances, from) })
	})
	if err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	_, left := remove(ctx, s.engine, opts)
	return errors.Join(err, wrap.Errorf(errors.Join(left, lowerWeights(ctx, s.engine)), "remove what the failed set-up left"))
}

// createParts creates the cluster, and at the same time what does not need its API.
func (s *System) createParts(ctx context.Context, opts cluster.Options, localstack string) (instances map[string]string, err error) {
	s.Cluster = cluster.New(s.engine, opts)
	err = whileCreating(ctx, func(ctx context.Context) error {
		return s.timed("kind cluster", func() error { return s.Cluster.Create(ctx, opts) })
	}, func(ctx context.Context) error {
		// Until the nodes are configured every core is busy; kubeadm then mostly waits.
		if err := s.Cluster.Configured(ctx); err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return s.loadImage(ctx) })
		group.Go(func() error { return s.loadDNS(ctx) })
		group.Go(func() error {
			return s.timed("LocalStack", func() (err error) { instances, err = s.createQueue(ctx, localstack); return err })
		})
		return group.Wait()
	})
	return instances, err
}

// whileCreating creates something, and does the rest at the same time. Creating what fails may fail the rest first, so its
// error is waited for, and is the one returned.
func whileCreating(ctx context.Context, create, rest func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	created := make(chan struct{})
	var failed error
	group.Go(func() error {
		defer close(created)
		failed = create(ctx)
		return failed
	})
	group.Go(func() error {
		err := rest(ctx)
		if err != nil {
			<-created
			return cmp.Or(failed, err)
		}
		return nil
	})
	return group.Wait()
}

// connected gives the parts of the system their clients.
func (s *System) connected() {
	s.DNS = clusterdns.New(s.Cluster, s.engine)
	s.Launches.cluster = s.Cluster
	s.Handlers.cluster, s.Handlers.aws = s.Cluster, s.AWS
}

// createQueue starts LocalStack with the workers' instances, the queue and its rules.
func (s *System) createQueue(ctx context.Context, image string) (instances map[string]string, err error) {
	if err := s.startLocalStack(ctx, image); err != nil {
		return nil, err
	}
	if err := s.AWS.CheckFleet(ctx); err != nil {
		return nil, fmt.Errorf("check that LocalStack launches fleets as EC2 does, which drills with Karpenter rest on: %w; its image is %s, and it printed last:\n%s",
			err, image, s.lastLines(ctx, s.localStackName()))
	}
	if instances, err = s.AWS.RunInstances(ctx, s.opts.Cluster, cluster.WorkerNames(s.opts.Cluster)); err != nil {
		return nil, err
	}
	return instances, s.AWS.DeployStack(ctx, s.opts.Cluster)
}

// confine keeps the network's packets on this machine before the first one is
// sent. Without root on the engine's host, the rules inside each node do.
func (s *System) confine(ctx context.Context) error {
	err := s.engine.ConfineNetwork(ctx, s.opts.Cluster)
	if errors.Is(err, engine.ErrNeedsRoot) {
		s.opts.Log("  not root on the engine's host: rules inside each node keep packets on this machine")
		return nil
	}
	return wrap.Errorf(err, "keep the network's packets on this machine")
}

// proveConfined sends packets that must not leave, and sees them dropped. Each node tries its own rules.
func (s *System) proveConfined(ctx context.Context) error {
	err := s.engine.ProveConfined(ctx, s.opts.Cluster, s.localStackName())
	if errors.Is(err, engine.ErrNeedsRoot) {
		return nil
	}
	return wrap.Errorf(err, "keep the network's packets on this machine")
}

// upstreamIP is the cluster IP of the resolver for external names; it lies in
// kind's service range, in the lower band that Kubernetes leaves for fixed ones.
const upstreamIP = "10.96.0.53"

// furnish turns a bare kind cluster into the one that drills need.
func (s *System) furnish(ctx context.Context, instances map[string]string, from cluster.Origin) error {
	if err := s.Cluster.Connect(ctx); err != nil {
		return err
	}
	s.connected()
	if err := s.Cluster.SetInstances(ctx, instances); err != nil {
		return err
	}
	if err := s.startLaunches(ctx); err != nil {
		return err
	}
	image, err := s.DNS.Forward(ctx, upstreamIP)
	if err != nil {
		return err
	}
	if err := s.Cluster.SetUpNetwork(ctx); err != nil {
		return err
	}
	if err := s.Cluster.Objects().EnsureNamespace(ctx, Namespace); err != nil {
		return err
	}
	if err := s.takeToken(ctx); err != nil {
		return err
	}
	if err := s.Cluster.Objects().Create(ctx, manifests, "manifests/upstream.yaml", map[string]string{"NAMESPACE": Namespace, "UPSTREAM_IP": upstreamIP, "COREDNS_IMAGE": image}); err != nil {
		return err
	}
	if err := s.Cluster.Objects().Create(ctx, manifests, "manifests/proxy-service.yaml", map[string]string{"NAMESPACE": Namespace}); err != nil {
		return err
	}
	if err := s.Cluster.WaitReady(ctx); err != nil {
		return err
	}
	if err := s.Cluster.Objects().DeploymentReady(ctx, Namespace, "upstream"); err != nil {
		return err
	}
	if err := s.Cluster.RaiseWeights(ctx); err != nil {
		return err
	}
	s.raiseParent(ctx)
	dns, err := s.DNS.State(ctx)
	if err != nil {
		return err
	}
	return s.Cluster.WriteState(ctx, from, dns)
}

// startProduct brings this build of the product into the cluster.
func (s *System) startProduct(ctx context.Context) error {
	if err := s.loadImage(ctx); err != nil {
		return err
	}
	if err := s.timed("recording proxy", func() error { return s.startProxy(ctx) }); err != nil {
		return err
	}
	if s.opts.Virtual > 0 || s.opts.Kwok {
		if err := s.loadKwok(ctx); err != nil {
			return err
		}
	}
	if s.opts.Virtual > 0 {
		return s.StartKwok(ctx)
	}
	return errors.Join(s.StopKwok(ctx), s.Cluster.Spares().RemoveVirtual(ctx), s.removeLanes(ctx))
}

// loadImage loads the product's image into the nodes, once.
func (s *System) loadImage(ctx context.Context) error {
	if s.Image != "" {
		return nil
	}
	return s.timed("product image in the nodes", func() (err error) {
		s.Image, err = s.loadBinary(ctx, s.opts.Binary)
		return err
	})
}

// loadDNS loads the image of the cluster's CoreDNS into all nodes, under the name that kubeadm gives to it. Its pods
// start when there is a pod network.
func (s *System) loadDNS(ctx context.Context) error {
	return s.timed("CoreDNS's image in the nodes", func() error {
		nodes, err := s.Cluster.Workers()
		if err != nil {
			return err
		}
		nodes = append(nodes, s.opts.Cluster+"-control-plane")
		return nodeimages.LoadAs(ctx, s.engine, s.dnsImage.held, s.dnsImage.release.Public(), nodes)
	})
}

// loadBinary loads a binary into all workers, as an image.
func (s *System) loadBinary(ctx context.Context, path string) (string, error) {
	workers, err := s.Cluster.Workers()
	if err != nil {
		return "", err
	}
	return nodeimages.LoadBinary(ctx, s.engine, path, workers)
}

// startProxy puts a proxy of this build between handlers and LocalStack, and before the API
// server.
func (s *System) startProxy(ctx context.Context) error {
	upstream, err := s.engine.ContainerIP(ctx, s.localStackName(), s.opts.Cluster)
	if err != nil {
		return err
	}
	if err := s.Cluster.Objects().RemovePods(ctx, s.Namespace, metav1.ListOptions{FieldSelector: "metadata.name=" + ProxyPod}, "pod "+ProxyPod); err != nil {
		return err
	}
	svc, err := s.Cluster.Clientset.CoreV1().Services(s.Namespace).Get(ctx, ProxyPod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Service %s: %w", ProxyPod, err)
	}
	if s.Handlers.settings, err = s.findSettings(ctx, svc.Spec.ClusterIP); err != nil {
		return err
	}
	if err := s.certifyProxy(ctx, svc.Spec.ClusterIP); err != nil {
		return err
	}
	if err := s.Cluster.Objects().Create(ctx, manifests, "manifests/proxy.yaml", map[string]string{
		"NAMESPACE": s.Namespace, "IMAGE": s.Image, "UPSTREAM": "http://" + upstream + ":4566", "API_UPSTREAM": s.Handlers.settings.ClusterEndpoint,
	}); err != nil {
		return err
	}
	return s.Cluster.Objects().PodReady(ctx, s.Namespace, ProxyPod)
}

// controlToken is the Secret with the token of requests to the proxy, the probers, their recorders and
// the metadata services. Its namespace has no role of a handler.
const controlToken = "control-token"

// takeToken reads that token, and makes one in a cluster that has none.
func (s *System) takeToken(ctx context.Context) error {
	secrets := s.Cluster.Clientset.CoreV1().Secrets(s.Namespace)
	secret, err := secrets.Get(ctx, controlToken, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: controlToken, Namespace: s.Namespace},
			Data:       map[string][]byte{"token": []byte(rand.Text())},
		}, metav1.CreateOptions{})
	}
	if err == nil && len(secret.Data["token"]) == 0 {
		err = errors.New("it has no token")
	}
	if err != nil {
		return fmt.Errorf("take the token of our pods from Secret %s/%s: %w", s.Namespace, controlToken, err)
	}
	s.Cluster.Token = string(secret.Data["token"])
	return nil
}

// certifyProxy gives the proxy a certificate that handlers trust as the API server's.
func (s *System) certifyProxy(ctx context.Context, address string) error {
	cert, key, err := s.Cluster.ServingCertificate(ctx, s.Namespace+"-"+ProxyPod, net.ParseIP(address))
	if err != nil {
		return err
	}
	secrets := s.Cluster.Clientset.CoreV1().Secrets(s.Namespace)
	serving := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: ProxyPod + "-serving", Namespace: s.Namespace},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key},
	}
	if err := secrets.Delete(ctx, serving.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the recording proxy's previous certificate: %w", err)
	}
	_, err = secrets.Create(ctx, serving, metav1.CreateOptions{})
	return wrap.Errorf(err, "store the recording proxy's certificate")
}

// findSettings collects the settings that are the same for every handler; proxy is the
// address of the recording proxy.
func (s *System) findSettings(ctx context.Context, proxy string) (handler.Settings, error) {
	api, err := s.Cluster.Clientset.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return handler.Settings{}, fmt.Errorf("read Service kubernetes: %w", err)
	}
	network, err := s.AWS.Network(ctx)
	if err != nil {
		return handler.Settings{}, err
	}
	endpoint := "http://" + proxy + ":4566"
	settings := handler.Settings{
		APIHost: proxy, APIPort: "6443",
		QueueURL: s.AWS.QueueURL(endpoint), QueueName: s.opts.Cluster, Endpoint: endpoint,
		Region: kind.Region, ClusterName: s.opts.Cluster, ClusterEndpoint: "https://" + api.Spec.ClusterIP,
		AMI: network.AMI, OtherAMI: network.OtherAMI, Subnet: network.Subnet, SecurityGroup: network.SecurityGroup, Image: s.Image,
	}
	if s.lane != "" {
		settings.Lane, settings.Account, settings.NodeSelector = s.lane, s.AWS.Account(), cluster.LaneLabel+"="+s.lane
	}
	return settings, nil
}
