package kind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/engine"
)

// An image comes from where it costs least: held already, pulled, built. The engine
// and the build are scripts here, which write down what they are asked to do.
func TestWhereAnImageComesFrom(t *testing.T) {
	const public = "docker.io/some/image@sha256:1"
	for _, c := range []struct {
		name         string
		holds, fails string // the references that the engine holds, the command that fails
		img          image
		sourceless   bool
		engine       string // podman, unless it is docker
		did          string // in this order
		from, logged string // how the reference begins, what is logged
		err          string
	}{
		{name: "the public one is held", holds: public, from: public},
		{name: "the built one is held", holds: BuiltImages, from: BuiltImages},
		{name: "a registry answers", did: "manifest pull ", from: public, logged: "pulled after"},
		{name: "no registry answers", fails: "manifest", did: "manifest build ", from: BuiltImages, logged: "manifest is refused"},
		{name: "the pull fails", fails: "pull", did: "manifest pull build ", from: BuiltImages, logged: "pull is refused"},
		{name: "the pull fails away from the source", fails: "pull", sourceless: true, did: "manifest pull ", err: "pull is refused"},
		{name: "the pull fails, and nothing builds it", fails: "pull", img: image{name: "handler's"}, did: "manifest pull ", err: "image not available: no registry gives the handler's image"},
		{name: "a registry answers Docker", engine: "docker", did: "pull ", from: public, logged: "pulled after"},
		{name: "only Docker's daemon reaches a registry", engine: "docker", fails: "manifest", did: "pull ", from: public, logged: "pulled after"},
		{name: "Docker's daemon reaches none", engine: "docker", fails: "pull", did: "pull build ", from: BuiltImages, logged: "pull is refused"},
		{name: "the public one does not run here", holds: public, img: image{notPublic: "no cgroup v1"}, did: "build ", from: BuiltImages, logged: "no cgroup v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			record := filepath.Join(folder, "record")
			if c.engine == "" {
				c.engine = "podman"
			}
			executable(t, filepath.Join(folder, c.engine), `
if [ "$1" = image ]; then
	case "$5" in "${holds:-none}"*) exit 0 ;; *) exit 1 ;; esac
fi
printf '%s ' "$1" >>"$record"
[ "$1" != "$fails" ] || { echo "$1 is refused" >&2; exit 1; }`)
			images := filepath.Join(folder, "kind", "images")
			for _, name := range []string{"steps.sh", "versions.env", "one.sh"} {
				write(t, filepath.Join(images, name), "")
			}
			if !c.sourceless {
				executable(t, filepath.Join(images, "build.sh"), `printf 'build ' >>"$record"`)
			}
			for name, value := range map[string]string{
				"PATH": folder + ":" + os.Getenv("PATH"), "SPOTDRILL_CACHE": folder,
				"record": record, "holds": c.holds, "fails": c.fails,
			} {
				t.Setenv(name, value)
			}
			var logged strings.Builder
			opts := ImageOptions{Source: folder, Log: func(format string, args ...any) { fmt.Fprintf(&logged, format+"\n", args...) }}
			c.img.public = public
			if c.img.name == "" {
				c.img.name, c.img.sources = "one", []string{"one.sh"}
			}

			ref, err := ensure(context.Background(), &engine.Engine{Name: c.engine}, opts, c.img)

			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			did, err := os.ReadFile(record)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if string(did) != c.did {
				t.Errorf("it did %q, want %q", did, c.did)
			}
			if !strings.HasPrefix(ref, c.from) {
				t.Errorf("the image is %s, want %s…", ref, c.from)
			}
			if !strings.Contains(logged.String(), c.logged) {
				t.Errorf("%q is not in what it logged: %s", c.logged, logged.String())
			}
		})
	}
}

// What only a pull can show is not known to doctor: Docker's client may reach no registry when its daemon does.
func TestExamineAsksARegistry(t *testing.T) {
	for name, c := range map[string]struct {
		engine, fails   string
		from, otherwise Origin
	}{
		"a registry answers":            {"docker", "", Pulled, ""},
		"only the daemon may reach one": {"docker", "manifest", Unasked, Built},
		"a registry answers Podman":     {"podman", "", Pulled, ""},
		"none answers Podman":           {"podman", "manifest", Built, ""},
	} {
		folder := t.TempDir()
		executable(t, filepath.Join(folder, c.engine), `case $1 in image) exit 1 ;; "`+c.fails+`") echo it is refused >&2; exit 1 ;; esac`)
		t.Setenv("PATH", folder)
		found, err := examine(t.Context(), &engine.Engine{Name: c.engine}, ImageOptions{}, localStackImage())
		if err != nil || found.From != c.from || found.Otherwise != c.otherwise || c.fails != "" && !strings.Contains(found.Why, "it is refused") {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}

// An image of one's own is made by a command, in the folder that names it.
func TestBuildImage(t *testing.T) {
	for _, c := range []struct{ name, script, err string }{
		{name: "it makes the image", script: `echo "making $IMAGE"; echo "$IMAGE $ENGINE" >held`},
		{name: "it makes another", script: `echo other >held`, err: "does not have my/handler:dev"},
		{name: "it fails", script: `echo no compiler; exit 3`, err: "exit status 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			executable(t, filepath.Join(folder, "podman"), `grep -q "^$5 podman$" "`+folder+`/held"`)
			executable(t, filepath.Join(folder, "make-image"), c.script)
			t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
			t.Setenv("SPOTDRILL_CACHE", folder)
			var logged strings.Builder
			opts := ImageOptions{Log: func(format string, args ...any) { fmt.Fprintf(&logged, format+"\n", args...) }}
			err := BuildImage(t.Context(), &engine.Engine{Name: "podman"}, opts, folder, []string{"./make-image"}, "my/handler:dev")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if c.err == "" && !strings.Contains(logged.String(), "making my/handler:dev") {
				t.Errorf("its output is not logged: %q", logged.String())
			}
		})
	}
}

func executable(t *testing.T, path, script string) {
	t.Helper()
	write(t, path, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}
