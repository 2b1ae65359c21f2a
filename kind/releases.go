package kind

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// Program is a released program that is not part of the nodes.
type Program string

// The programs.
const (
	NTH       Program = "nth"
	Karpenter Program = "karpenter"
	CoreDNS   Program = "coredns"
	KubeProxy Program = "kube-proxy"
	Kwok      Program = "kwok"
)

// nthVersion is the version of the handler nth.
const nthVersion = "v1.25.6"

// Programs lists those that a drill can run at another version than the cluster's, or the
// handler's own. Kwok is not one of them: it is for virtual nodes.
func Programs() []Program { return []Program{NTH, Karpenter, CoreDNS, KubeProxy} }

// Release is a program at a version, such as v1.12.4. A folder of images/releases with
// its name pins what it is built from.
type Release struct {
	Program Program
	Version string
}

// String is the release's name: PROGRAM-VERSION.
func (r Release) String() string { return string(r.Program) + "-" + r.Version }

// releaseNamed is the inverse of Release.String; false if no program can be built that way.
func releaseNamed(name string) (Release, bool) {
	program, number, ok := strings.Cut(name, "-v")
	r := Release{Program: Program(program), Version: "v" + number}
	return r, ok && r.Public() != ""
}

// Public is the image that the project itself publishes; "" for an unknown program.
func (r Release) Public() string {
	switch r.Program {
	case NTH:
		return "public.ecr.aws/aws-ec2/aws-node-termination-handler:" + r.Version
	case Karpenter:
		return "public.ecr.aws/karpenter/controller:" + strings.TrimPrefix(r.Version, "v")
	case CoreDNS:
		return "registry.k8s.io/coredns/coredns:" + r.Version
	case KubeProxy:
		return "registry.k8s.io/kube-proxy:" + r.Version
	case Kwok:
		return "registry.k8s.io/kwok/kwok:" + r.Version
	}
	return ""
}

// ReleaseImage returns the reference of a release's image that the engine has, pulled or
// built as in NodeImage. Building takes 2 to 8 minutes; kube-proxy's needs root.
func ReleaseImage(ctx context.Context, eng *engine.Engine, opts ImageOptions, r Release) (string, error) {
	if r.Public() == "" {
		return "", fmt.Errorf("%w: no program is named %q", ErrNotAvailable, r.Program)
	}
	return ensure(ctx, eng, opts, r.image())
}

func (r Release) image() image {
	sources := []string{"release.sh", path.Join("releases", r.String())}
	if r.Program == KubeProxy {
		sources = append(sources, "node.sh") // what kube-proxy runs is copied as for the nodes
	}
	return image{name: r.String(), public: r.Public(), sources: sources}
}
