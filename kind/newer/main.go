// Command newer lists, for each program that the images are built from, whether the Go module proxy has a newer
// release than the newest that is pinned; of Kubernetes, for each minor.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/spotdrill/spotdrill/kind"
)

// timeout bounds the question for one module.
const timeout = time.Minute

func main() {
	fail := flag.Bool("fail", false, "exit with 1 if anything newer exists, and with 2 if that is not known of a program")
	flag.Parse()
	pinned, err := pins(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "newer:", err)
		os.Exit(70)
	}
	rows := compare(context.Background(), pinned, listed)
	if err := write(os.Stdout, rows); err != nil {
		fmt.Fprintln(os.Stderr, "newer:", err)
		os.Exit(70)
	}
	if *fail {
		os.Exit(code(rows))
	}
}

// pin is a program whose versions are pinned.
type pin struct {
	name, module string
	versions     []string
	minors       bool                        // each minor has a newest release of its own
	how          func(version string) string // the command or the place that pins another
}

// pins are those of the checkout at source. Etcd and kube-proxy are not among them: Kubernetes names the former's
// version, and bugs the latter's.
func pins(source string) ([]pin, error) {
	var all []pin
	for _, p := range []kind.Program{kind.Kubernetes, kind.CoreDNS, kind.Karpenter, kind.NTH, kind.Kwok} {
		versions, err := kind.ImageOptions{Source: source}.Known(p)
		if err != nil {
			return nil, err
		}
		all = append(all, pin{
			string(p), kind.Modules()[p], versions, p == kind.Kubernetes,
			func(version string) string { return fmt.Sprintf("`.ci/pin %s %s`", p, version) },
		})
	}
	text, err := os.ReadFile(filepath.Join(source, "kind", "images", "versions.env"))
	if err != nil {
		return nil, fmt.Errorf("read what all images share: %w", err)
	}
	for _, of := range []struct{ name, module, variable string }{
		{"kind", "sigs.k8s.io/kind", "KIND_VERSION"},
		{"containerd", "github.com/containerd/containerd/v2", "CONTAINERD_VERSION"},
		{"cni", "github.com/containernetworking/plugins", "CNI_VERSION"},
	} {
		found := regexp.MustCompile(`(?m)^` + of.variable + `=(\S+)$`).FindSubmatch(text)
		if found == nil {
			return nil, fmt.Errorf("versions.env has no %s", of.variable)
		}
		all = append(all, pin{of.name, of.module, []string{string(found[1])}, false, func(version string) string {
			return fmt.Sprintf("%s=%s in kind/images/versions.env, and the go.mod of its recipe", of.variable, version)
		}})
	}
	return all, nil
}

// row is what is known of a program, or of a minor of it.
type row struct {
	program, pinned string
	newer           string // empty if nothing is
	pin             string // how it is pinned
	err             error  // why it is not known
}

// compare looks for what is newer than the pinned modules; available are the versions of a module.
func compare(ctx context.Context, pinned []pin, available func(ctx context.Context, module string) ([]string, error)) []row {
	var rows []row
	known := map[string][]string{}
	for _, p := range pinned {
		versions, asked := known[p.module]
		var err error
		if !asked {
			if versions, err = available(ctx, p.module); err == nil {
				known[p.module] = versions
			}
		}
		rows = append(rows, rowsOf(p, versions, err)...)
	}
	return rows
}

// rowsOf are those of a program: one for each minor that is pinned if it has several of them at once, as Kubernetes has,
// and one for a newer minor; else one.
func rowsOf(p pin, available []string, err error) []row {
	available = slices.DeleteFunc(slices.Clone(available), func(v string) bool { return semver.Prerelease(v) != "" || semver.Build(v) != "" })
	newest := slices.MaxFunc(p.versions, semver.Compare)
	if !p.minors {
		return []row{newRow(p, newest, newestOf(available, ""), err)}
	}
	var rows []row
	minors := map[string]string{}
	for _, v := range p.versions {
		if minor := semver.MajorMinor(v); semver.Compare(v, minors[minor]) > 0 {
			minors[minor] = v
		}
	}
	for _, v := range slices.SortedFunc(maps.Values(minors), semver.Compare) {
		rows = append(rows, newRow(p, v, newestOf(available, semver.MajorMinor(v)), err))
	}
	if latest := newestOf(available, ""); latest != "" && semver.Compare(semver.MajorMinor(latest), semver.MajorMinor(newest)) > 0 {
		rows = append(rows, newRow(p, newest, latest, nil))
	}
	return rows
}

func newRow(p pin, pinned, latest string, err error) row {
	r := row{program: p.name, pinned: pinned, err: err}
	if err == nil && latest == "" {
		r.err = errors.New("the proxy lists no release")
	}
	if semver.Compare(latest, pinned) > 0 {
		r.newer, r.pin = latest, p.how(latest)
	}
	return r
}

// newestOf is the newest of some versions, or of a minor of them; empty if there is none.
func newestOf(versions []string, minor string) string {
	newest := ""
	for _, v := range versions {
		if (minor == "" || semver.MajorMinor(v) == minor) && semver.Compare(v, newest) > 0 {
			newest = v
		}
	}
	return newest
}

// write writes a table that reads as text and as Markdown.
func write(to io.Writer, rows []row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %-12s | %-9s | %-9s | %s |\n|---|---|---|---|\n", "Program", "Pinned", "Newer", "How to pin it")
	for _, r := range rows {
		newer, how := cmp.Or(r.newer, "-"), r.pin
		if r.err != nil {
			newer, how = "unknown", strings.Join(strings.Fields(r.err.Error()), " ")
		}
		fmt.Fprintf(&b, "| %-12s | %-9s | %-9s | %s |\n", r.program, r.pinned, newer, strings.ReplaceAll(how, "|", "/"))
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func code(rows []row) int {
	switch {
	case slices.ContainsFunc(rows, func(r row) bool { return r.newer != "" }):
		return 1
	case slices.ContainsFunc(rows, func(r row) bool { return r.err != nil }):
		return 2
	}
	return 0
}

// listed asks the module proxy for the versions of a module.
func listed(ctx context.Context, module string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-versions", "-json", module)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go list -m -versions %s: %w: %s", module, err, failed.String())
	}
	var found struct{ Versions []string }
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("read the versions of %s: %w", module, err)
	}
	return found.Versions, nil
}
