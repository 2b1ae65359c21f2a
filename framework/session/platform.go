package session

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// OnPlatform returns a loader of scenarios with the values of the preset that the options name, and sets the options of its
// kube-proxy; its mode only if none was chosen. Without a name the values are kubeadm's. The error for an unknown one lists
// all.
func OnPlatform(opts *system.Options, modeChosen bool) (scenarios.Loader, error) {
	loader := verdict.Scenarios()
	if opts.Platform.Name == "" {
		return loader, nil
	}
	p, err := scenarios.PlatformNamed(opts.Platform.Name)
	if err != nil {
		return loader, fmt.Errorf("--platform: %w", err)
	}
	distribution, kubernetes := p.CoreDNS.TrafficDistribution, "v"+strings.TrimPrefix(opts.Versions.Kubernetes, "v")
	if since := distribution.Since(); since != "" && semver.IsValid(kubernetes) && semver.Compare(kubernetes, since) < 0 {
		return loader, fmt.Errorf("--platform: platform %s has trafficDistribution %s, which Kubernetes has since %s; --kubernetes is %s", p.Name, distribution, since, opts.Versions.Kubernetes)
	}
	loader.Platform = p
	opts.Platform.Lacks, opts.Platform.MinSyncPeriod = p.Lacks(), p.KubeProxy.MinSyncPeriod.D()
	if mode := p.KubeProxy.Mode; mode != "" && !modeChosen {
		opts.ProxyMode = mode
	}
	return loader, nil
}
