package session

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/system"
)

func TestAPlatformSetsKubeProxyUnlessItsModeWasChosen(t *testing.T) {
	for _, of := range []struct {
		platform string
		chosen   bool
		want     history.ProxyMode
	}{
		{"", false, history.IPTables}, {"talos", false, "nftables"}, {"talos", true, history.IPTables}, {"k3s", false, history.IPTables},
	} {
		opts := system.Options{ProxyMode: history.IPTables, Platform: system.Platform{Name: of.platform}}
		loader, err := OnPlatform(&opts, of.chosen)
		if err != nil || opts.ProxyMode != of.want {
			t.Errorf("%q, chosen %t: %s, %v; want %s", of.platform, of.chosen, opts.ProxyMode, err, of.want)
		}
		if (loader.Platform != nil) != (of.platform != "") || (opts.Platform.Lacks != "") != (of.platform != "") {
			t.Errorf("%q: the loader has %v, and %q is not here", of.platform, loader.Platform, opts.Platform.Lacks)
		}
	}
	opts := system.Options{Platform: system.Platform{Name: "eks"}}
	if _, err := OnPlatform(&opts, false); err == nil || !strings.HasPrefix(err.Error(), `--platform: no platform is named "eks"; did you mean `) {
		t.Errorf("got %v", err)
	}
}
