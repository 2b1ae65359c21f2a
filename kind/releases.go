package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// Program is a program whose releases are pinned, each in a folder of images/releases.
type Program string

// The programs.
const (
	Kubernetes Program = "kubernetes" // the nodes; etcd is a part of them
	Etcd       Program = "etcd"
	CoreDNS    Program = "coredns"
	KubeProxy  Program = "kube-proxy" // at another version than the nodes
	Karpenter  Program = "karpenter"
	NTH        Program = "nth"
	Kwok       Program = "kwok" // for virtual nodes
)

// Modules are the Go modules that the programs are built from.
func Modules() map[Program]string {
	return map[Program]string{
		Kubernetes: "k8s.io/kubernetes", Etcd: "go.etcd.io/etcd/server/v3", CoreDNS: "github.com/coredns/coredns", KubeProxy: "k8s.io/kubernetes",
		Karpenter: "github.com/aws/karpenter-provider-aws", NTH: "github.com/aws/aws-node-termination-handler", Kwok: "sigs.k8s.io/kwok",
	}
}

// Programs lists those that a drill can run at another version than the cluster's, or the
// handler's own.
func Programs() []Program { return []Program{NTH, Karpenter, CoreDNS, KubeProxy} }

// Release is a program at a version, such as v1.12.4. A folder of images/releases with
// its name pins what it is built from.
type Release struct {
	Program Program
	Version string

	buildable bool // its modules are pinned; see ImageOptions.known
}

// String is the release's name: PROGRAM-VERSION.
func (r Release) String() string { return string(r.Program) + "-" + r.Version }

// ReleaseNamed is the inverse of Release.String; false if there is no such program.
func ReleaseNamed(name string) (Release, bool) {
	program, number, ok := strings.Cut(name, "-v")
	r := Release{Program: Program(program), Version: "v" + number}
	return r, ok && Modules()[r.Program] != ""
}

// Public is the image that the project itself publishes; "" if there is none, or none whose digest is known.
func (r Release) Public() string {
	switch r.Program {
	case Kubernetes:
		if digest := publishedNodes()[r.Version]; digest != "" {
			return "docker.io/kindest/node@" + digest
		}
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
	ref, err := ensure(ctx, eng, opts, r.image())
	if errors.Is(err, ErrNotAvailable) {
		if known, unread := opts.known(r.Program); unread == nil {
			err = fmt.Errorf("%w; can be had: %s", err, had(known))
		}
	}
	return ref, err
}

// CoreDNSRelease is the release of CoreDNS that a version stands for; the newest that is pinned if it is empty.
func (o ImageOptions) CoreDNSRelease(version string) (Release, error) {
	known, err := o.known(CoreDNS)
	if err != nil {
		return Release{}, err
	}
	r, found := newest(known, version, func(Release) bool { return true })
	if !found {
		return r, fmt.Errorf("%w: CoreDNS %s; can be had: %s", ErrUnknownVersion, version, had(known))
	}
	return r, nil
}

func (r Release) image() image {
	sources := []string{"release.sh", r.folder()}
	if r.Program == KubeProxy {
		sources = append(sources, "node.sh") // what kube-proxy runs is copied as for the nodes
	}
	return image{name: r.String(), public: r.Public(), sources: sources}
}

// folder has what the release is built from.
func (r Release) folder() string { return path.Join("releases", r.String()) }

// Definitions are the files with the CustomResourceDefinitions that the release comes with; none if it has none.
func (r Release) Definitions() (fs.FS, []string, error) {
	recipes, err := ImageOptions{}.recipes()
	if err != nil {
		return nil, nil, err
	}
	files, err := fs.Glob(recipes, path.Join(r.folder(), "crds", "*.yaml"))
	return recipes, files, err
}
