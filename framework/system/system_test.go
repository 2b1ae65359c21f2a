package system

import (
	"context"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/kind"
)

// A change of CoreDNS in the background ends before the cluster is put back: nothing
// changes CoreDNS afterwards.
func TestAnAbandonedChangeOfDNSIsOver(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	over := false
	setting := &settingDNS{stop: stop, done: make(chan struct{})}
	s := &System{dns: setting}
	go func() {
		defer close(setting.done)
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond)
		over = true
	}()
	s.abandonDNS()
	if !over || s.dns != nil {
		t.Errorf("over %t, in progress %v", over, s.dns)
	}
	s.abandonDNS() // there is none any more
}

// A cluster of other versions is replaced, and the reason names both.
func TestWhyAClusterIsReplaced(t *testing.T) {
	have := cluster.Origin{Digest: "1", Versions: "Kubernetes v1.36.3 and CoreDNS v1.14.2"}
	for want, why := range map[cluster.Origin]string{
		have: "",
		{Digest: "2", Versions: "Kubernetes v1.37.2 and CoreDNS v1.15.0"}: "the one of an earlier run has Kubernetes v1.36.3 and CoreDNS v1.14.2; Kubernetes v1.37.2 and CoreDNS v1.15.0 are wanted",
		{Digest: "2", Versions: have.Versions}:                            "the one of an earlier run was created from other images or settings",
	} {
		if got := whyOther(have, want); got != why {
			t.Errorf("%+v: %q, want %q", want, got, why)
		}
	}
	if got := whyOther(cluster.Origin{Digest: "1"}, cluster.Origin{Digest: "2", Versions: "Kubernetes v1.37.2"}); got != "the one of an earlier run was created from other images or settings" {
		t.Errorf("of a cluster without versions: %q", got)
	}
}

// Another CoreDNS makes another cluster, also with the same nodes.
func TestVersionsAreInTheDigest(t *testing.T) {
	from := func(change func(*images)) cluster.Origin {
		made := images{nodes: kind.Nodes{Image: "node", Kubernetes: "v1.37.2"}, localstack: "ls", dns: dnsImage{"coredns:1", kind.Release{Program: kind.CoreDNS, Version: "v1.15.0"}}}
		change(&made)
		s := newSystem(Options{Cluster: "drill", ProxyMode: "iptables"})
		opts, err := s.clusterOptions(made)
		if err != nil {
			t.Fatal(err)
		}
		origin, err := made.origin(opts)
		if err != nil {
			t.Fatal(err)
		}
		return origin
	}
	same := from(func(*images) {})
	if same.Versions != "Kubernetes v1.37.2 and CoreDNS v1.15.0" || same != from(func(*images) {}) {
		t.Errorf("got %+v", same)
	}
	for what, change := range map[string]func(*images){
		"Kubernetes":           func(i *images) { i.nodes = kind.Nodes{Image: "other", Kubernetes: "v1.36.3"} },
		"CoreDNS":              func(i *images) { i.dns.release.Version = "v1.14.7" },
		"the image of CoreDNS": func(i *images) { i.dns.held = "coredns:2" },
		"LocalStack":           func(i *images) { i.localstack = "other" },
	} {
		if from(change).Digest == same.Digest {
			t.Errorf("%s is not in the digest", what)
		}
	}
}
