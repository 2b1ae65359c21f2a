// Package flags holds the flags that the suites share. The Makefile sets them; paths
// are relative to the folder of go.mod.
package flags

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Drill is --drill. SkipUnless skips the test without it, so that go test ./... plays no
// drill.
type Drill struct{ set *bool }

// AddDrill adds --drill.
func AddDrill() Drill {
	return Drill{flag.Bool("drill", false, "drill a real system, which go test ./... must not do")}
}

// SkipUnless skips the test without --drill; target is what to make instead.
func (d Drill) SkipUnless(t *testing.T, target string) {
	t.Helper()
	if !*d.set {
		t.Skipf("it drills a real system: run `make %s`", target)
	}
}

// AddOut adds --out, the folder that a suite writes to.
func AddOut(folder string) *string {
	return flag.String("out", folder, "folder in which the run gets a folder of its own")
}

// AddBinary adds --binary.
func AddBinary() *string {
	return flag.String("binary", "bin/spotdrill", "static spotdrill binary that runs in the cluster")
}

// System are the flags of the system that is drilled.
type System struct {
	cluster, proxyMode, platform, kubernetes, coredns, binary *string
}

// AddSystem adds --cluster, --proxy-mode, --platform, --kubernetes, --coredns and --binary.
func AddSystem() System {
	return System{
		cluster:    flag.String("cluster", system.DefaultCluster, "name of the kind cluster"),
		proxyMode:  flag.String("proxy-mode", "", "kube-proxy's mode; empty: that of the platform, or iptables; else "+strings.Join(history.Words(history.ProxyModes()), ", ")),
		platform:   flag.String("platform", "", "preset whose values the scenarios have: "+strings.Join(scenarios.Platforms(), ", ")),
		kubernetes: flag.String("kubernetes", "", "version of Kubernetes, such as v1.34 or v1.34.4; the default is the newest that is known"),
		coredns:    flag.String("coredns", "", "version of CoreDNS; the default is the newest that is known"),
		binary:     AddBinary(),
	}
}

// Session is a session on that system, with images built from the checkout at source. It is an
// error if the binary is not there.
func (s System) Session(source string, opts session.Options) (*session.Session, error) {
	return s.SessionOn(*s.platform, source, opts)
}

// Platform is the preset that --platform names.
func (s System) Platform() string { return *s.platform }

// SessionOn is Session with a preset of that name, "" for none.
func (s System) SessionOn(platform, source string, opts session.Options) (*session.Session, error) {
	if _, err := os.Stat(*s.binary); err != nil {
		return nil, fmt.Errorf("the static spotdrill binary is not at --binary=%s: run `make build` first: %w", *s.binary, err)
	}
	opts.System = s.options(source)
	opts.System.Platform.Name = platform
	if _, err := session.OnPlatform(&opts.System, *s.proxyMode != ""); err != nil {
		return nil, err
	}
	var err error
	if opts.System.Versions, err = (kind.ImageOptions{Source: source}).Complete(opts.System.Versions); err != nil {
		return nil, err
	}
	if opts.System.ProxyMode == "" {
		opts.System.ProxyMode = history.IPTables
	}
	opts.Console = os.Stderr
	return session.New(opts)
}

func (s System) options(source string) system.Options {
	return system.Options{
		Cluster: *s.cluster, ProxyMode: history.ProxyMode(*s.proxyMode), Platform: system.Platform{Name: *s.platform}, Source: source, Binary: *s.binary,
		Versions: kind.Versions{Kubernetes: *s.kubernetes, CoreDNS: *s.coredns},
	}
}

// Scenarios is a loader with the values of the preset.
func (s System) Scenarios() (scenarios.Loader, error) {
	opts := s.options("")
	return session.OnPlatform(&opts, true)
}

// Handler are the flags of the handler under test.
type Handler struct {
	name, image, karpenter, nth *string
	policies                    *[]string
}

// AddHandler adds --handler, --handler-image, --karpenter, --nth and --iam-policy.
func AddHandler() Handler {
	h := Handler{
		karpenter: flag.String("karpenter", "", "version of the handler karpenter; the default is that of its description"),
		nth:       flag.String("nth", "", "version of the handlers nth and nth-imds; the default is that of their descriptions"),
		policies:  new([]string),
		name:      flag.String("handler", "builtin", "handler under test: "+strings.Join(handler.Names(), ", ")+", or a path to a description; two by comma for the drills of two handlers"),
		image:     flag.String("handler-image", "", "image that the container engine holds, instead of the description's"),
	}
	flag.Func("iam-policy", "files with the handler's IAM policies, by comma or given several times: calls of SQS that they do not allow are refused", func(files string) error {
		*h.policies = append(*h.policies, Names(files)...)
		return nil
	})
	return h
}

// Load reads the descriptions of the handler and of another one, nil if there is none; image is
// "" for the description's own.
func (h Handler) Load() (under handler.Description, other *handler.Description, image string, err error) {
	versions, err := kind.ImageOptions{Source: "."}.Complete(kind.Versions{Karpenter: *h.karpenter, NTH: *h.nth})
	if err == nil {
		under, other, err = handler.LoadPair(Names(*h.name))
	}
	if err == nil {
		under, other, err = handler.AtVersions(versions, under, other)
	}
	if err == nil {
		under, err = under.WithPolicies(*h.policies...)
	}
	if note := under.PolicyNote(); err == nil && note != "" {
		fmt.Fprintln(os.Stderr, note)
	}
	return under, other, *h.image, err
}

// Names splits a list of names by comma or space.
func Names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// AddParameters adds --parameters, and --parameter for one of them: NAME=VALUE by comma. A value may
// contain commas itself.
func AddParameters() map[string]string {
	values := map[string]string{}
	add := func(list string) error { return addParameters(values, list) }
	flag.Func("parameters", "values of the template's parameters, such as Environment=prod, by comma; AWS::AccountId and AWS::Region as well", add)
	flag.Func("parameter", "one of --parameters; can be given several times", add)
	return values
}

func addParameters(to map[string]string, list string) error {
	last := ""
	for part := range strings.SplitSeq(list, ",") {
		name, value, is := strings.Cut(part, "=")
		switch name = strings.TrimSpace(name); {
		case is && name != "":
			to[name], last = value, name
		case last != "":
			to[last] += "," + part
		case part != "":
			return fmt.Errorf("%q is not NAME=VALUE", part)
		}
	}
	return nil
}
