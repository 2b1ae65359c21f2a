package vpccni

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/spotdrill/spotdrill/framework/chroot"
)

// Init is what the init container does: it writes the sysctl as DisableEarlyDemux requires.
func Init(disableEarlyDemux bool) error {
	value := "1"
	if disableEarlyDemux {
		value = "0"
	}
	if err := os.WriteFile(earlyDemux, []byte(value+"\n"), 0o644); err != nil {
		return fmt.Errorf("set the sysctl: %w", err)
	}
	return nil
}

// Config is what the add-on does on one node.
type Config struct {
	Node      string // its name
	Namespace string // whose pods count
	PodENI    bool   // see PodENI
	// Root is the root directory of the node, whose nft is run.
	Root string
	// Listen is the address of GET /healthz, which answers 200 once rules are in force.
	Listen string
}

// Run keeps the rules of the node in force until the context ends. They stay after that, as the
// real add-on's do: the next version takes them over.
func Run(ctx context.Context, api kubernetes.Interface, cfg Config, log *slog.Logger) error {
	state, err := os.ReadFile(earlyDemux)
	if err != nil {
		return fmt.Errorf("read the sysctl: %w", err)
	}
	on := node{podENI: cfg.PodENI, earlyDemux: strings.TrimSpace(string(state)) != "0"}
	log.Info("values", PodENI, on.podENI, "tcp_early_demux", on.earlyDemux)
	var inForce atomic.Bool
	served, err := serve(ctx, cfg.Listen, &inForce)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithNamespace(cfg.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", cfg.Node).String()
		}))
	pods, changed := factory.Core().V1().Pods(), make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // it is to look anyway
		}
	}
	_, err = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	for last := ""; ; {
		list, err := pods.Lister().List(labels.Everything())
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		if script := on.script(addresses(list)); script != last {
			if err := chroot.Run(ctx, cfg.Root, strings.NewReader(script), "/usr/sbin/nft", "-f", "-"); err != nil {
				return err
			}
			last = script
			log.Info("rules are in force", "script", script)
		}
		inForce.Store(true)
		select {
		case <-changed:
		case err := <-served:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// addresses are those of the pods that have a network interface of their own.
func addresses(pods []*corev1.Pod) (out []netip.Addr) {
	for _, p := range pods {
		if _, own := p.Annotations[Annotation]; !own {
			continue
		}
		if ip, err := netip.ParseAddr(p.Status.PodIP); err == nil {
			out = append(out, ip)
		}
	}
	return out
}

// serve answers GET /healthz until the context ends. The channel gets the error of a server that
// cannot go on.
func serve(ctx context.Context, address string, ready *atomic.Bool) (<-chan error, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "no rules are in force yet", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve: %w", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return failed, nil
}

// table is the name of the table of nftables on a node.
const table = "spotdrill-vpc-cni"

// Remove is the shell script that takes back on a node what the add-on has left there, if
// anything.
const Remove = "nft delete table inet " + table + " 2>/dev/null || true\n{ echo 1 > " + earlyDemux + "; } 2>/dev/null || true\n"

// earlyDemux is the sysctl that the init container writes, in the network of its node.
const earlyDemux = "/proc/sys/net/ipv4/tcp_early_demux"

// node is what decides about the traffic of pods with security groups on a node.
type node struct {
	podENI, earlyDemux bool
}

// script is what nft reads to replace the rules of a node in one transaction.
func (n node) script(pods []netip.Addr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "add table inet %[1]s\ndelete table inet %[1]s\n", table)
	if len(pods) == 0 || n.podENI && !n.earlyDemux {
		return b.String()
	}
	slices.SortFunc(pods, netip.Addr.Compare)
	addresses := make([]string, len(pods))
	for i, p := range pods {
		addresses[i] = p.String()
	}
	fmt.Fprintf(&b, "table inet %s {\n\tset pods { type ipv4_addr; elements = { %s } }\n", table, strings.Join(addresses, ", "))
	if !n.podENI {
		b.WriteString("\tchain forwarded { type filter hook forward priority filter; ip daddr @pods drop; ip saddr @pods drop; }\n")
	}
	if n.earlyDemux {
		b.WriteString("\tchain local { type filter hook output priority filter; ip daddr @pods meta l4proto tcp drop; }\n")
	}
	b.WriteString("}\n")
	return b.String()
}
