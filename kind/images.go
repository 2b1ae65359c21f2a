package kind

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/semver"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/history"
)

// registryTimeout is the time after which a registry counts as unreachable.
const registryTimeout = 8 * time.Second

// news is the interval between progress messages.
const news = 20 * time.Second

//go:embed images/versions.env
var versionsFile string

// ImageOptions describe where images come from and where progress is logged.
type ImageOptions struct {
	// Source is the root of a checkout, whose kind/images has the recipes. Elsewhere, those that
	// this program was built with are used.
	Source string
	// Log receives every line meant for the user; nil discards them.
	Log func(format string, args ...any)
}

func (o ImageOptions) log(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// BuiltImages is the prefix of the references of all images that are built here.
const BuiltImages = "localhost/spotdrill/"

// image is an image that can be pulled, or built from the checkout.
type image struct {
	// name is also its name for build.sh.
	name, public string
	// sources are the files and folders of kind/images that it is built from; without
	// any it cannot be built.
	sources []string
	// notPublic is why the public image must not be used, or "".
	notPublic string
	// note is what a reader should know about its version, or "".
	note string
}

// needsRoot reports whether building it needs root: for mmdebstrap and chroot, as build.sh has it.
func (img image) needsRoot() bool {
	return slices.ContainsFunc(img.sources, func(source string) bool { return source == "node.sh" || source == "localstack.sh" })
}

// PublicNodeImage is the node image that kind publishes for the default version of Kubernetes, by its digest.
func PublicNodeImage() string {
	return Release{Program: Kubernetes, Version: slices.MaxFunc(slices.Collect(maps.Keys(publishedNodes())), semver.Compare)}.Public()
}

// PublicLocalStackImage is LocalStack's own image, by its version.
func PublicLocalStackImage() string { return "docker.io/localstack/localstack:" + LocalStackVersion() }

// LocalStackVersion is the version of LocalStack, whether its image is pulled or built.
func LocalStackVersion() string { return version("LOCALSTACK_VERSION") }

// LibraryVersion is the version of kind, the library that makes clusters.
func LibraryVersion() string { return version("KIND_VERSION") }

// Nodes are what the nodes of a cluster are made from.
type Nodes struct {
	// Image is the reference of an image that the engine has.
	Image string
	// Kubernetes is the version in it, such as v1.37.2.
	Kubernetes string
}

// NodeImage returns the node image for a version of Kubernetes or a minor; empty for the newest minor. It uses kind's
// own image if a registry answers, and builds one otherwise, which takes about ten minutes the first time and needs
// root.
func NodeImage(ctx context.Context, eng *engine.Engine, opts ImageOptions, version string) (Nodes, error) {
	img, pulled, built, err := opts.nodeImage(version)
	if err != nil {
		return Nodes{}, err
	}
	ref, err := ensure(ctx, eng, opts, img)
	if ref == img.public {
		return Nodes{ref, pulled.Version}, err
	}
	return Nodes{ref, built.Version}, err
}

// nodeImage is the one for a version of Kubernetes. The release of a minor that is pulled may be another one than
// that which is built.
func (o ImageOptions) nodeImage(version string) (img image, pulled, built Release, err error) {
	fail := func(err error) (image, Release, Release, error) { return image{}, Release{}, Release{}, err }
	known, err := o.known(Kubernetes)
	if err != nil {
		return fail(err)
	}
	if version == "" {
		version = semver.MajorMinor(known[0].Version)
	}
	pulled, _ = newest(known, version, func(r Release) bool { return r.Public() != "" })
	built, _ = newest(known, version, func(r Release) bool { return r.buildable })
	img = image{name: "node-" + version, public: pulled.Public()}
	switch {
	case img.public == "":
		img.notPublic = "no public node image of Kubernetes " + version + " is known by its digest"
	case engine.CGroupVersion() == 1:
		img.notPublic = "the public one's systemd does not start on cgroup v1"
	}
	if !built.buildable {
		img.note = fmt.Sprintf("Kubernetes %s can only be pulled; can be had: %s", version, had(known))
		return img, pulled, built, nil
	}
	etcd, err := o.etcdOf(built)
	if err != nil {
		return fail(err)
	}
	img.name = "node-" + built.Version
	img.sources = []string{"node.sh", "containerd", "cni", "pause", built.folder(), etcd.folder()}
	return img, pulled, built, nil
}

// etcdOf is the release of etcd that a release of Kubernetes runs.
func (o ImageOptions) etcdOf(kubernetes Release) (Release, error) {
	recipes, err := o.recipes()
	if err != nil {
		return Release{}, err
	}
	text, err := fs.ReadFile(recipes, path.Join(kubernetes.folder(), "versions.env"))
	if err != nil {
		return Release{}, fmt.Errorf("read which etcd %s runs: %w", kubernetes, err)
	}
	return Release{Program: Etcd, Version: versionIn(string(text), "ETCD_VERSION")}, nil
}

// LocalStackImage returns the reference of a LocalStack image that the engine has, pulled
// or built as in NodeImage; building it takes about two minutes.
func LocalStackImage(ctx context.Context, eng *engine.Engine, opts ImageOptions) (string, error) {
	return ensure(ctx, eng, opts, localStackImage())
}

func localStackImage() image {
	return image{
		name:    "localstack",
		public:  PublicLocalStackImage(),
		sources: []string{"localstack.sh", "localstack"},
		note: "version " + version("LOCALSTACK_VERSION") + " is pinned and stays: 4.14.0 is the last image that starts without an account, and " +
			"LocalStack's repository is archived since March 2026",
	}
}

// ErrNotAvailable reports that no registry has the image and that it cannot be built here.
// Every function that returns an image may return it.
var ErrNotAvailable = errors.New("image not available")

// Recipes lists what the images of handlers can be built from: the names of releases.
func Recipes() []string {
	var names []string
	for _, p := range []Program{Karpenter, NTH} {
		known, err := ImageOptions{}.known(p)
		if err != nil {
			panic(fmt.Sprintf("embedded recipes: %v", err)) // a test reads them
		}
		for _, r := range known {
			if r.buildable {
				names = append(names, r.String())
			}
		}
	}
	return names
}

// HandlerImage returns the reference of a handler's image that the engine has, pulled or,
// if recipe is one of Recipes, built as in NodeImage; Karpenter takes about five minutes, the
// Node Termination Handler three.
func HandlerImage(ctx context.Context, eng *engine.Engine, opts ImageOptions, public, recipe string) (string, error) {
	return ensure(ctx, eng, opts, handlerImage(public, recipe))
}

func handlerImage(public, recipe string) image {
	img := image{name: "handler's", public: public}
	if r, ok := ReleaseNamed(recipe); ok {
		img = r.image()
		img.public = public
	}
	return img
}

// LocalStackEnv returns the variables, as KEY=value, for both the pulled and the built
// image.
func LocalStackEnv() []string {
	return []string{
		"DISABLE_EVENTS=1",
		"SKIP_SSL_CERT_DOWNLOAD=1",
		"GATEWAY_LISTEN=0.0.0.0:4566",
		"SERVICES=sqs,events,ec2,cloudformation,iam,sts,s3,ssm",
	}
}

// ensure returns the reference of the image that the engine has.
func ensure(ctx context.Context, eng *engine.Engine, opts ImageOptions, img image) (string, error) {
	found, err := locate(ctx, eng, opts, img)
	if err == nil && found.From == Pulled {
		// Podman has no daemon: without a registry, its answer comes sooner than that of a pull, which is tried again and again.
		var unpulled error
		if eng.Daemonless() {
			unpulled = askRegistry(ctx, eng, img.public)
		}
		if unpulled == nil {
			unpulled = pull(ctx, eng, opts, img.public)
		}
		if unpulled == nil || ctx.Err() != nil {
			return img.public, unpulled
		}
		img.notPublic = ungiven(img, unpulled)
		found, err = locate(ctx, eng, opts, img)
	}
	switch {
	case err != nil:
		return "", err
	case found.From == Nowhere && img.note != "":
		return "", fmt.Errorf("%w: %s; %s", ErrNotAvailable, found.Why, img.note)
	case found.From == Nowhere:
		return "", fmt.Errorf("%w: %s", ErrNotAvailable, found.Why)
	case found.From == Built:
		opts.log("building the %s image as %s: %s", img.name, found.Ref, found.Why)
		return found.Ref, build(ctx, eng, opts, img, found.Ref)
	}
	return found.Ref, nil
}

func pull(ctx context.Context, eng *engine.Engine, opts ImageOptions, ref string) error {
	opts.log("pulling %s", ref)
	over := goingOn(opts, "pulling")
	_, err := eng.Run(ctx, "pull", ref)
	if took := over(); err == nil {
		opts.log("pulled after %.0f s", took.Seconds())
	}
	return err
}

// goingOn logs for how long something goes on, until it is over: an engine prints nothing of a pull without
// a terminal, and a build may be silent for minutes.
func goingOn(opts ImageOptions, what string) (over func() time.Duration) {
	start, every, done := time.Now(), time.NewTicker(news), make(chan struct{})
	var logging sync.WaitGroup
	logging.Go(func() {
		for {
			select {
			case <-every.C:
				opts.log("still %s after %.0f s", what, time.Since(start).Seconds())
			case <-done:
				return
			}
		}
	})
	return func() time.Duration {
		every.Stop()
		close(done)
		logging.Wait()
		return time.Since(start)
	}
}

// askRegistry requests the image's manifest from its registry, for Docker in the client: the daemon may have a mirror or a
// proxy that the client knows nothing of, and nothing but a pull asks the daemon.
func askRegistry(ctx context.Context, eng *engine.Engine, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	_, err := eng.Run(ctx, "manifest", "inspect", ref)
	// Podman 4 gets the manifest of an image for one platform but does not print it.
	if err != nil && strings.Contains(err.Error(), "Treating single images as manifest lists is not implemented") {
		return nil
	}
	return err
}

// build runs build.sh and logs its progress line by line.
func build(ctx context.Context, eng *engine.Engine, opts ImageOptions, img image, ref string) error {
	folder, err := opts.folder()
	if err != nil {
		return err
	}
	cmd := engine.OwnGroup(exec.CommandContext(ctx, "bash", filepath.Join(folder, "build.sh"), img.name, eng.Name, ref))
	state, err := engine.StateDir()
	if err != nil {
		return err
	}
	cmd.Env = append(append(os.Environ(), eng.Environ("")...), "SPOTDRILL_CACHE="+state)
	return runLogged(ctx, cmd, opts, fmt.Sprintf("build the %s image", img.name))
}

// BuildImage runs a command in a folder that builds the image ref, and checks that the
// engine has it afterwards. The output is logged line by line. The command's environment
// has ref as IMAGE, and docker or podman as ENGINE.
func BuildImage(ctx context.Context, eng *engine.Engine, opts ImageOptions, folder string, command []string, ref string) error {
	opts.log("building %s: %s", ref, strings.Join(command, " "))
	cmd := engine.OwnGroup(exec.CommandContext(ctx, command[0], command[1:]...))
	cmd.Dir = folder
	cmd.Env = append(append(os.Environ(), eng.Environ("")...), "IMAGE="+ref, "ENGINE="+eng.Name)
	what := strings.Join(command, " ") + ", in " + folder
	over := goingOn(opts, "building")
	err := runLogged(ctx, cmd, opts, what)
	took := over()
	if err != nil {
		return err
	}
	opts.log("built after %.0f s", took.Seconds())
	held, err := eng.HasImage(ctx, ref)
	if err == nil && !held {
		err = fmt.Errorf("%s: the command succeeded, but %s does not have %s", what, eng.Name, ref)
	}
	return err
}

// runLogged runs a command and logs its output line by line; what is its name in errors.
func runLogged(ctx context.Context, cmd *exec.Cmd, opts ImageOptions, what string) error {
	progress := &lines{log: opts.log}
	cmd.Stdout, cmd.Stderr = progress, progress
	err := cmd.Run()
	progress.end()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: %w (see the lines above)", what, err)
	}
	return nil
}

// lines is a writer that logs each full line, but those about modules that go downloads as one.
type lines struct {
	log        func(format string, args ...any)
	rest       []byte
	downloaded int // modules that were not logged yet
}

// fold logs how many modules were downloaded since the last line.
func (l *lines) fold() {
	if l.downloaded > 0 {
		l.log("%s", history.Count(l.downloaded, "Go module")+" downloaded")
	}
	l.downloaded = 0
}

// end logs what is left: the last line may have no end.
func (l *lines) end() {
	l.fold()
	if len(l.rest) > 0 {
		l.log("%s", string(l.rest))
	}
}

func (l *lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		if l.rest = rest; bytes.HasPrefix(line, []byte("go: downloading ")) {
			l.downloaded++
			continue
		}
		l.fold()
		l.log("%s", string(line))
	}
}

// reference is the reference of the built image: a digest of all its sources.
func (o ImageOptions) reference(img image) (string, error) {
	if len(img.sources) == 0 {
		return "", errors.New("it cannot be built here")
	}
	recipes, err := o.recipes()
	if err != nil {
		return "", err
	}
	for _, source := range img.sources {
		if _, missing := fs.Stat(recipes, path.Join(source, storedModule)); missing != nil && strings.HasPrefix(source, "releases/") {
			program, version, _ := strings.Cut(path.Base(source), "-v")
			return "", fmt.Errorf("it cannot be built: kind/images/%s has no %s, which .ci/pin %s v%s writes where the Go module proxy has all of its modules", source, storedModule, program, version)
		}
	}
	hash := sha256.New()
	for _, root := range append([]string{"build.sh", "steps.sh", "versions.env"}, img.sources...) {
		err := eachRecipe(recipes, root, func(name string, content []byte) error {
			_, err := fmt.Fprintf(hash, "/%s %d\n%s", name, len(content), content)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read what the %s image is built from: %w", img.name, err)
		}
	}
	return fmt.Sprintf("%s%s:%.6x", BuiltImages, img.name, hash.Sum(nil)), nil
}

// version returns a version from versions.env, which a test checks to be there.
func version(name string) string { return versionIn(versionsFile, name) }

// versionIn returns a version from the text of such a file; empty if it is not there.
func versionIn(text, name string) string {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+"="); found {
			return value
		}
	}
	return ""
}
