package imds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/chroot"
	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/history"
)

// Config is the service on one node.
type Config struct {
	Node string // its name
	// HopLimit is how many hops the answer with a token may make.
	HopLimit int
	// Account is the AWS account of the instance.
	Account string
	// AccessKey is the id of the credentials of its role.
	AccessKey string
	// Root is the root directory of the node, whose ip is run.
	Root string
	// Control is the address of Server.Control, and Token what its requests must carry.
	Control, Token string
}

// Run serves the metadata of a node's instance at Address, and its control, until the context
// ends. Then the node has that address no more.
func Run(ctx context.Context, api kubernetes.Interface, cfg Config, log *slog.Logger) error {
	node, err := api.CoreV1().Nodes().Get(ctx, cfg.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %s: %w", cfg.Node, err)
	}
	instance, err := instanceOf(node, cfg)
	if err != nil {
		return err
	}
	if err := ip(ctx, cfg.Root, "addr", "replace", Address+"/32", "dev", "lo"); err != nil {
		return err
	}
	defer func() { // the context is over
		if err := ip(context.WithoutCancel(ctx), cfg.Root, "addr", "del", Address+"/32", "dev", "lo"); err != nil {
			log.Error("remove the address", "error", err)
		}
	}()
	s := NewServer(instance, cfg.HopLimit, ownAddress)
	log.Info("serving", "instance", instance, "hopLimit", cfg.HopLimit)
	return serve(ctx, s.at(cfg))
}

// at are the handlers by address. The handler under test reaches both.
func (s *Server) at(cfg Config) map[string]http.Handler {
	return map[string]http.Handler{net.JoinHostPort(Address, "80"): s, cfg.Control: guard.With(cfg.Token, s.Control())}
}

// instanceOf is the instance of a node: its provider id is aws:///ZONE/ID.
func instanceOf(node *corev1.Node, cfg Config) (Instance, error) {
	zone, id, ok := strings.Cut(strings.TrimPrefix(node.Spec.ProviderID, "aws:///"), "/")
	if !ok {
		return Instance{}, fmt.Errorf("node %s has the provider id %q, which is not aws:///ZONE/ID", node.Name, node.Spec.ProviderID)
	}
	i := Instance{
		ID: id, Zone: zone, Hostname: node.Name, Account: cfg.Account, AccessKey: cfg.AccessKey,
		Region:    node.Labels[corev1.LabelTopologyRegion],
		Type:      node.Labels[corev1.LabelInstanceTypeStable],
		LifeCycle: cmp.Or(node.Labels[history.CapacityLabel], history.OnDemand),
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			i.IP = a.Address
		}
	}
	return i, nil
}

// ownAddress reports whether an address is one of this network namespace.
func ownAddress(of net.IP) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(of) {
			return true
		}
	}
	return false
}

func ip(ctx context.Context, root string, args ...string) error {
	return chroot.Run(ctx, root, nil, "/sbin/ip", args...)
}

// serve serves each handler at its address until the context ends, or one of them cannot go on.
func serve(ctx context.Context, at map[string]http.Handler) error {
	failed := make(chan error, len(at))
	var servers []*http.Server
	defer func() {
		for _, s := range servers {
			_ = s.Close() // nobody waits for its answers
		}
	}()
	for address, h := range at {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", address, err)
			}
		}()
		servers = append(servers, server)
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
