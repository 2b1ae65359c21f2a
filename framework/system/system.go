// Package system brings up what drills need (kind cluster, LocalStack with the
// queue, recording proxy, handler under test), restores it between drills, examines
// what this machine lacks for it, and removes it.
package system

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/kind"
)

// Options define a system.
type Options struct {
	// Cluster names the kind cluster, the queue, and what belongs to them.
	Cluster   string
	ProxyMode history.ProxyMode
	// Platform is the preset of the drills.
	Platform Platform
	// Versions are those that were chosen, complete (kind.ImageOptions.Complete); a handler's is in its description,
	// too.
	Versions kind.Versions
	// Source is the checkout that images are built from if no registry answers.
	Source string
	// Binary is the static spotdrill binary that runs in the cluster.
	Binary string
	// Spares is how many spare workers the cluster has at least. Instances that are launched
	// for it become nodes there.
	Spares int
	// Virtual is how many instances beyond the spare workers become virtual nodes, on which
	// nothing runs.
	Virtual int
	// Kwok is set if drills need virtual nodes: kwok's image is then loaded into the nodes.
	Kwok bool
	// Log receives lines for the user; it must be set.
	Log func(format string, args ...any)
}

// Platform is what a system has of a preset, see scenarios.Platform.
type Platform struct {
	// Name is empty without a preset.
	Name string
	// Lacks is what a drill with it does not have of the platform.
	Lacks string
	// MinSyncPeriod is that of kube-proxy; 0: Kubernetes' default.
	MinSyncPeriod time.Duration
}

// DefaultCluster is the cluster's name unless the user sets another.
const DefaultCluster = "spotdrill"

// Namespace holds our own pods: the recording proxy, and the probers of a drill. A lane has its proxy in another one, see System.Namespace.
const Namespace = "spotdrill"

// ProxyPod is the recording proxy, between the handler and both LocalStack and the API
// server. Its Service has the same name.
const ProxyPod = "recording-proxy"

// RecordsPort is where our pods serve their records, and the proxy is controlled.
const RecordsPort = "8080"

// System is everything that a drill needs, up and running.
type System struct {
	Cluster *cluster.Cluster
	DNS     *clusterdns.CoreDNS
	AWS     *cloud.AWS
	// Environment holds the versions of the parts, for histories and reports.
	Environment map[string]string
	// Image is the product's own image, as the nodes know it.
	Image string
	// NodeSystem is what the nodes' image has besides Kubernetes.
	NodeSystem cluster.NodeSystem
	// Namespace holds the recording proxy.
	Namespace string

	Handlers *Handlers
	Launches *Launches

	opts      Options
	lane      string // of a Lane, else empty
	spot      int    // nodes of a Lane
	claim     *claim
	engine    *engine.Engine
	dns       *settingDNS // in progress, see PrepareDNS
	dnsImage  dnsImage    // of the cluster's own CoreDNS
	workloads int         // namespaces named so far
	kwok      string      // its image, as the nodes know it

	parentWeight string // of the engine's control group, in words
	priority     string // of this process, in words
	awake        string // whether the processors are kept from halting, in words
}

// Binary is the static spotdrill binary that runs in the cluster.
func (s *System) Binary() string { return s.opts.Binary }

// AuditLog is the API server's.
func (s *System) AuditLog() recording.AuditLog {
	return recording.AuditLog{Engine: s.engine, ControlPlane: s.opts.Cluster + "-control-plane"}
}

// Log writes a line for the user.
func (s *System) Log(format string, args ...any) { s.opts.Log(format, args...) }

//go:embed manifests
var manifests embed.FS

func newSystem(opts Options) *System {
	launches := &Launches{}
	return &System{
		opts: opts, Namespace: Namespace, Launches: launches,
		Handlers: &Handlers{launches: launches, name: opts.Cluster, namespace: Namespace, images: map[build]string{}},
	}
}

// Up brings the system up, or takes over the one that an earlier run left intact.
// What an earlier run left dead, incomplete or outdated is created again. The system is
// this process's until Release; if it is another's, the error is ErrInUse.
func Up(ctx context.Context, opts Options) (*System, error) {
	s := newSystem(opts)
	var err error
	if s.claim, err = claimSystem(opts.Cluster); err != nil {
		return nil, err
	}
	if err := s.up(ctx); err != nil {
		return nil, errors.Join(err, s.Release())
	}
	return s, nil
}

// Release lets another process use the system, which stays up.
func (s *System) Release() error {
	s.Launches.close()
	return s.claim.release()
}

func (s *System) up(ctx context.Context) error {
	opts := s.opts
	var err error
	if s.engine, err = detect(ctx, opts); err != nil {
		return err
	}
	images, err := s.buildImages(ctx)
	if err != nil {
		return err
	}
	s.dnsImage = images.dns
	if err := s.checkProxyMode(ctx, images.nodes.Image); err != nil {
		return err
	}
	clusterOpts, err := s.clusterOptions(images)
	if err != nil {
		return err
	}
	from, err := images.origin(clusterOpts)
	if err != nil {
		return err
	}
	why, err := s.reuse(ctx, clusterOpts, from)
	if err != nil {
		return err
	}
	if why != "" {
		if err := s.create(ctx, clusterOpts, images.localstack, from, why); err != nil {
			return err
		}
	}
	if err := s.startProduct(ctx); err != nil {
		return err
	}
	if s.NodeSystem, err = s.Cluster.System(ctx); err != nil {
		return err
	}
	s.opts.Log("  CPU weight of all containers: %s; this process: %s; processors: %s", s.parentWeight, s.priority, s.awake)
	s.Environment = s.environment(ctx, images)
	return nil
}

// images are what a system is made from; the engine has all of them.
type images struct {
	nodes      kind.Nodes
	localstack string
	dns        dnsImage
}

// dnsImage is the image of the cluster's CoreDNS, and the release in it.
type dnsImage struct {
	held    string
	release kind.Release
}

// origin identifies what a cluster is created from.
func (i images) origin(opts cluster.Options) (cluster.Origin, error) {
	digest, err := opts.Digest()
	if err != nil {
		return cluster.Origin{}, err
	}
	all := digest + i.localstack + i.dns.held + strings.Join(localStackEnv(), " ") + fleets + clusterManifests()
	return cluster.Origin{
		Digest:   fmt.Sprintf("%x", sha256.Sum256([]byte(all)))[:16],
		Versions: fmt.Sprintf("Kubernetes %s and CoreDNS %s", i.nodes.Kubernetes, i.dns.release.Version),
	}, nil
}

// buildImages provides the images of the nodes, of CoreDNS and of LocalStack, all at once: building
// one of them mostly waits for downloads, another for the compiler.
func (s *System) buildImages(ctx context.Context) (made images, err error) {
	opts := s.imageOptions()
	if made.dns.release, err = opts.CoreDNSRelease(s.opts.Versions.CoreDNS); err != nil {
		return made, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		made.nodes, err = kind.NodeImage(ctx, s.engine, opts, s.opts.Versions.Kubernetes)
		return err
	})
	group.Go(func() (err error) {
		made.dns.held, err = kind.ReleaseImage(ctx, s.engine, opts, made.dns.release)
		return err
	})
	group.Go(func() (err error) { made.localstack, err = kind.LocalStackImage(ctx, s.engine, opts); return err })
	return made, group.Wait()
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
	if err := engine.RaiseLimits(engine.Options{Log: opts.Log}); err != nil {
		return nil, err
	}
	eng, err := engine.Detect(ctx, engine.Options{Log: opts.Log, Install: true})
	if err != nil {
		return nil, err
	}
	if err := eng.PrepareHost(engine.Options{Log: opts.Log}); err != nil {
		return nil, err
	}
	if err := eng.Apply(opts.Cluster); err != nil {
		return nil, err
	}
	return eng, nil
}

func (s *System) clusterOptions(from images) (cluster.Options, error) {
	kubeconfig, err := Kubeconfig(s.opts.Cluster)
	if err != nil {
		return cluster.Options{}, err
	}
	return cluster.Options{
		Name: s.opts.Cluster, Network: s.opts.Cluster, Nodes: from.nodes, CoreDNS: from.dns.release.Version, ProxyMode: string(s.opts.ProxyMode), MinSyncPeriod: s.opts.Platform.MinSyncPeriod,
		Spares: s.opts.Spares, KubeconfigDir: filepath.Dir(kubeconfig),
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

// Down removes the cluster, LocalStack and their network, and nothing else. It puts back
// what Up changed outside of them. Found is false if nothing was there.
func Down(ctx context.Context, opts Options) (found bool, err error) {
	claimed, err := claimSystem(opts.Cluster)
	if err != nil {
		return false, err
	}
	found, err = down(ctx, opts)
	return found, errors.Join(err, claimed.release())
}

func down(ctx context.Context, opts Options) (found bool, err error) {
	eng, err := engine.Detect(ctx, engine.Options{Log: opts.Log})
	if err != nil {
		return false, err
	}
	if err := eng.Apply(opts.Cluster); err != nil {
		return false, err
	}
	kubeconfig, err := Kubeconfig(opts.Cluster)
	if err != nil {
		return false, err
	}
	found, err = remove(ctx, eng, cluster.Options{Name: opts.Cluster, Network: opts.Cluster})
	if err == nil {
		err = lowerWeights(ctx, eng)
	}
	if rm := os.Remove(kubeconfig); rm != nil && !errors.Is(rm, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove kubeconfig: %w", rm))
	}
	return found, err
}

// lowerWeights puts the engine's CPU weight back, unless another cluster of ours needs it.
func lowerWeights(ctx context.Context, eng *engine.Engine) error {
	others, err := eng.Containers(ctx, cluster.Label)
	if err != nil || len(others) > 0 {
		return err
	}
	return engine.LowerParents()
}

// remove reports whether there was anything to remove.
func remove(ctx context.Context, eng *engine.Engine, opts cluster.Options) (found bool, err error) {
	if _, err := eng.Network(ctx, opts.Network); err == nil {
		found = true
		if _, err := eng.EnsureNetwork(ctx, opts.Network, map[string]string{cluster.Label: "true"}); err != nil {
			return found, err
		}
	}
	c, err := cluster.Open(ctx, eng, opts)
	if err != nil {
		return found, err
	}
	if c != nil {
		found = true
		if err := c.Delete(ctx); err != nil {
			return found, err
		}
	}
	if err := eng.Remove(ctx, localStackName(opts.Name)); err != nil {
		return found, err
	}
	if _, err := eng.Network(ctx, opts.Network); errors.Is(err, engine.ErrNoNetwork) {
		return found, nil
	}
	if err := eng.ReleaseNetwork(ctx, opts.Network); err != nil && !errors.Is(err, engine.ErrNeedsRoot) {
		return found, err
	}
	return found, eng.RemoveNetwork(ctx, opts.Network)
}

// settingDNS is a change of CoreDNS's settings in the background.
type settingDNS struct {
	stop context.CancelFunc
	done chan struct{} // closed when it is over
}

// PrepareDNS begins to give CoreDNS the settings of the next drill and returns at once. Its
// pods take seconds to become Ready, during which the nodes are restored and the previous
// drill is judged. SetDNS then waits for it, and repeats what failed.
func (s *System) PrepareDNS(ctx context.Context, want coredns.Settings) {
	if s.lane != "" {
		return
	}
	s.abandonDNS()
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	setting := &settingDNS{stop: stop, done: make(chan struct{})}
	s.dns = setting
	go func() {
		defer close(setting.done)
		_ = s.DNS.Set(ctx, want)
	}()
}

// SetDNS gives CoreDNS the settings, see clusterdns. For a lane they are those that it has: the drills of all lanes share it.
func (s *System) SetDNS(ctx context.Context, want coredns.Settings) error {
	if s.lane != "" {
		return nil
	}
	if s.dns != nil {
		select {
		case <-s.dns.done:
		case <-ctx.Done():
		}
		s.abandonDNS()
	}
	return s.DNS.Set(ctx, want)
}

// abandonDNS ends the change in the background.
func (s *System) abandonDNS() {
	if s.dns == nil {
		return
	}
	s.dns.stop()
	<-s.dns.done
	s.dns = nil
}
