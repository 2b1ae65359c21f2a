package session

import (
	"fmt"

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
	loader.Platform = p
	opts.Platform.Lacks, opts.Platform.MinSyncPeriod = p.Lacks(), p.KubeProxy.MinSyncPeriod.D()
	if mode := p.KubeProxy.Mode; mode != "" && !modeChosen {
		opts.ProxyMode = mode
	}
	return loader, nil
}
