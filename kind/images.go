package kind

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// A registry that does not answer within this time is taken as out of reach.
const registryTimeout = 8 * time.Second

// pullNews is how often a pull says that it goes on: an engine that writes to no
// terminal does not.
const pullNews = 20 * time.Second

//go:embed images/versions.env
var versionsFile string

// ImageOptions says where images come from and where progress goes.
type ImageOptions struct {
	// Source is the root of a checkout, whose kind/images builds images.
	Source string
	// Log receives every line meant for the user; nil discards them.
	Log func(format string, args ...any)
}

func (o ImageOptions) log(format string, args ...any) {
	if o.Log != nil {
		o.Log(format, args...)
	}
}

// BuiltImages is how the references of all images begin that are built here.
const BuiltImages = "localhost/spotdrill/"

// image is an image that can be pulled, or built from the checkout.
type image struct {
	// name is also what build.sh calls it.
	name, public string
	// sources are the files and folders of kind/images that go into it; without any
	// it cannot be built.
	sources []string
	// notPublic is why the public image is not to be taken, or "".
	notPublic string
}

// PublicNodeImage is kind's own node image, by its digest.
func PublicNodeImage() string {
	repository, digest, _ := strings.Cut(defaults.Image, "@")
	repository, _, _ = strings.Cut(repository, ":")
	return "docker.io/" + repository + "@" + digest
}

// PublicLocalStackImage is LocalStack's own image, by its version.
func PublicLocalStackImage() string {
	return "docker.io/localstack/localstack:" + version("LOCALSTACK_VERSION")
}

// NodeImage returns the reference of a node image that the engine holds. It takes
// kind's own, pulling it where a registry answers, and builds one otherwise, which
// takes about ten minutes the first time and needs root.
func NodeImage(ctx context.Context, eng *engine.Engine, opts ImageOptions) (string, error) {
	return ensure(ctx, eng, opts, nodeImage())
}

func nodeImage() image {
	img := image{
		name:    "node",
		public:  PublicNodeImage(),
		sources: []string{"node.sh", "kubernetes", "containerd", "cni", "etcd", "coredns", "pause"},
	}
	if engine.CGroupVersion() == 1 {
		img.notPublic = "the public one's systemd does not start on cgroup v1"
	}
	return img
}

// LocalStackImage returns the reference of a LocalStack image that the engine
// holds, pulled or built as NodeImage does; building it takes about two minutes.
func LocalStackImage(ctx context.Context, eng *engine.Engine, opts ImageOptions) (string, error) {
	return ensure(ctx, eng, opts, localStackImage())
}

func localStackImage() image {
	return image{
		name:    "localstack",
		public:  PublicLocalStackImage(),
		sources: []string{"localstack.sh", "localstack"},
	}
}

// ErrNotAvailable is why there is no image: no registry gives it, and nothing
// here says how to build it. Every function that returns an image may return it.
var ErrNotAvailable = errors.New("image not available")

// Recipes lists the handlers' images that can be built.
func Recipes() []string { return []string{"karpenter"} }

// HandlerImage returns the reference under which the engine holds the image of a
// handler, pulled or, where recipe is one of Recipes, built as NodeImage does;
// Karpenter takes about five minutes.
func HandlerImage(ctx context.Context, eng *engine.Engine, opts ImageOptions, public, recipe string) (string, error) {
	img := image{name: "handler's", public: public}
	if recipe != "" {
		img.name, img.sources = recipe, []string{recipe + ".sh", recipe}
	}
	return ensure(ctx, eng, opts, img)
}

// LocalStackEnv returns the variables, as KEY=value, that the pulled and the built
// image run with alike.
func LocalStackEnv() []string {
	return []string{
		"DISABLE_EVENTS=1",
		"SKIP_SSL_CERT_DOWNLOAD=1",
		"GATEWAY_LISTEN=0.0.0.0:4566",
		"SERVICES=sqs,events,ec2,cloudformation,iam,sts,s3,ssm",
	}
}

// ensure returns the reference under which the engine holds the image.
func ensure(ctx context.Context, eng *engine.Engine, opts ImageOptions, img image) (string, error) {
	found, err := examine(ctx, eng, opts, img)
	if err == nil && found.From == Pulled {
		unpulled := pull(ctx, eng, opts, img.public)
		if unpulled == nil || ctx.Err() != nil {
			return img.public, unpulled
		}
		img.notPublic = ungiven(img, unpulled)
		found, err = examine(ctx, eng, opts, img)
	}
	switch {
	case err != nil:
		return "", err
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
	start := time.Now()
	pulled := make(chan error, 1)
	go func() {
		_, err := eng.Run(ctx, "pull", ref)
		pulled <- err
	}()
	news := time.NewTicker(pullNews)
	defer news.Stop()
	for {
		select {
		case err := <-pulled:
			if err == nil {
				opts.log("pulled after %.0f s", time.Since(start).Seconds())
			}
			return err
		case <-news.C:
			opts.log("still pulling after %.0f s", time.Since(start).Seconds())
		}
	}
}

// askRegistry asks the image's registry for its manifest.
func askRegistry(ctx context.Context, eng *engine.Engine, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	_, err := eng.Run(ctx, "manifest", "inspect", ref)
	// Podman 4 shows no manifest of an image for one platform, having got it.
	if err != nil && strings.Contains(err.Error(), "Treating single images as manifest lists is not implemented") {
		return nil
	}
	return err
}

// build runs build.sh, whose progress goes to the user line by line.
func build(ctx context.Context, eng *engine.Engine, opts ImageOptions, img image, ref string) error {
	cmd := engine.OwnGroup(exec.CommandContext(ctx, "bash", filepath.Join(opts.Source, "kind", "images", "build.sh"), img.name, eng.Name, ref))
	state, err := engine.StateDir()
	if err != nil {
		return err
	}
	cmd.Env = append(append(os.Environ(), eng.Environ("")...), "SPOTDRILL_CACHE="+state)
	return tell(ctx, cmd, opts, fmt.Sprintf("build the %s image", img.name))
}

// BuildImage runs a command in a folder that makes the image ref, which the engine
// holds then; its output goes to the user line by line. The command finds ref in
// IMAGE, and docker or podman in ENGINE.
func BuildImage(ctx context.Context, eng *engine.Engine, opts ImageOptions, folder string, command []string, ref string) error {
	opts.log("building %s: %s", ref, strings.Join(command, " "))
	cmd := engine.OwnGroup(exec.CommandContext(ctx, command[0], command[1:]...))
	cmd.Dir = folder
	cmd.Env = append(append(os.Environ(), eng.Environ("")...), "IMAGE="+ref, "ENGINE="+eng.Name)
	what := strings.Join(command, " ") + ", in " + folder
	if err := tell(ctx, cmd, opts, what); err != nil {
		return err
	}
	held, err := eng.HasImage(ctx, ref)
	if err == nil && !held {
		err = fmt.Errorf("%s, has ended well, and %s does not hold %s", what, eng.Name, ref)
	}
	return err
}

// tell runs a command whose output goes to the user line by line; what is how its
// error calls it.
func tell(ctx context.Context, cmd *exec.Cmd, opts ImageOptions, what string) error {
	progress := &lines{log: opts.log}
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: %w (the lines above say why)", what, err)
	}
	return nil
}

// lines is a writer that logs each full line.
type lines struct {
	log  func(format string, args ...any)
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		l.log("%s", string(line))
		l.rest = rest
	}
}

// builtReference names the built image after everything that goes into it.
func builtReference(source string, img image) (string, error) {
	if len(img.sources) == 0 {
		return "", errors.New("nothing here builds it")
	}
	folder := filepath.Join(source, "kind", "images")
	if _, err := os.Stat(filepath.Join(folder, "build.sh")); err != nil {
		return "", fmt.Errorf("%s is not there: run spotdrill from a checkout of its source, or where an image registry can be reached", filepath.Join(folder, "build.sh"))
	}
	hash := sha256.New()
	for _, name := range append([]string{"build.sh", "steps.sh", "versions.env"}, img.sources...) {
		err := filepath.WalkDir(filepath.Join(folder, name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if err == nil {
				_, err = fmt.Fprintf(hash, "%s %d\n%s", strings.TrimPrefix(path, folder), len(content), content)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read what the %s image is built from: %w", img.name, err)
		}
	}
	return fmt.Sprintf("%s%s:%.6x", BuiltImages, img.name, hash.Sum(nil)), nil
}

// version returns a version from versions.env, which a test checks to be there.
func version(name string) string {
	for line := range strings.Lines(versionsFile) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+"="); found {
			return value
		}
	}
	return ""
}
