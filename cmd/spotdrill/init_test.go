package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// A newcomer writes a handler and a scenario, and both can be played as they are.
func TestWhatInitWritesCanBePlayed(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := spotdrill(t, "init", "handler", "team/web-drainer")
	if code != 0 || !strings.Contains(stdout, "team/web-drainer/manifests.yaml") || !strings.Contains(stderr, "spotdrill run --handler ./team/web-drainer/handler.yaml spot-notice-drains-node") {
		t.Fatalf("init handler: exit code %d:\n%s%s", code, stdout, stderr)
	}
	d, err := handler.Load("./team/web-drainer/handler.yaml")
	if err != nil || d.Name != "web-drainer" || d.Image.Ref != "localhost/web-drainer:dev" {
		t.Errorf("the description: %v, %+v", err, d)
	}
	stdout, stderr, code = spotdrill(t, "init", "scenario", "web-pods-move-in-time")
	if code != 0 || strings.TrimSpace(stdout) != "web-pods-move-in-time.yaml" {
		t.Fatalf("init scenario: exit code %d:\n%s%s", code, stdout, stderr)
	}
	if _, err := verdict.Scenarios().LoadFile("./web-pods-move-in-time.yaml"); err != nil {
		t.Error(err)
	}
	for _, command := range []string{
		"explain ./web-pods-move-in-time.yaml",
		"run ./web-pods-move-in-time.yaml --handler ./team/web-drainer/handler.yaml --dry-run",
		"run --handler ./team/web-drainer/handler.yaml --dry-run",
	} {
		if stdout, stderr, code := spotdrill(t, strings.Fields(command)...); code != 0 || stdout == "" {
			t.Errorf("%s: exit code %d:\n%s%s", command, code, stdout, stderr)
		}
	}
}

// The manifests of the example keep what its README and docs/testing-your-handler.md require.
func TestTheManifestsThatInitWritesAreSound(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, stderr, code := spotdrill(t, "init", "handler", "web-drainer"); code != 0 {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile("web-drainer/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	var role rbacv1.ClusterRole
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		for kind, into := range map[string]any{"Deployment": &deployment, "ClusterRole": &role} {
			if strings.Contains(document, "\nkind: "+kind+"\n") {
				if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
			}
		}
	}
	pod := deployment.Spec.Template.Spec
	if pod.NodeSelector["nodegroup"] != "on-demand" || pod.DNSPolicy != "Default" || pod.Containers[0].EnvFrom[0].SecretRef.Name != handler.CredentialsSecret || pod.Containers[0].Image != "${IMAGE}" {
		t.Errorf("the pod is %+v", pod)
	}
	if deployment.Name != "web-drainer" || pod.ServiceAccountName != "web-drainer" || deployment.Spec.Template.Labels["app"] != deployment.Spec.Selector.MatchLabels["app"] {
		t.Errorf("the Deployment is %+v", deployment)
	}
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods/eviction") }) {
		t.Errorf("the role is %+v", role)
	}
}

// build.sh needs neither network nor module, and imports a static program: here into an engine that
// only keeps what it is given.
func TestTheImageThatInitWritesIsBuilt(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, stderr, code := spotdrill(t, "init", "handler", "web-drainer"); code != 0 {
		t.Fatal(stderr)
	}
	engine := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(engine, []byte("#!/bin/sh\necho \"$@\" >\"$0.args\"\ntar -x -C \"$(dirname \"$0\")\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "sh", "build.sh")
	build.Dir = "web-drainer"
	build.Env = append(os.Environ(), "IMAGE=localhost/web-drainer:dev", "ENGINE="+engine, "GOPROXY=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args, err := os.ReadFile(engine + ".args")
	if err != nil || string(args) != "import -c ENTRYPOINT [\"/handler\"] - localhost/web-drainer:dev\n" {
		t.Errorf("the engine was given %s, %v", args, err)
	}
	if info, err := os.Stat(filepath.Join(filepath.Dir(engine), "handler")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("the image has no program: %v", err)
	}
}

func TestInitOverwritesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("mine", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("mine.yaml", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"handler mine":                        "nothing is overwritten",
		"scenario mine":                       "nothing is overwritten",
		"scenario mine.yaml":                  "nothing is overwritten",
		"handler My_Handler":                  "cannot be a name",
		"handler a.b":                         "cannot be a name",
		"scenario Web":                        "cannot be a name",
		"scenario " + strings.Repeat("a", 64): "at most 63",
		"scenario spot-notice-drains-node":    "choose another name",
		"handlers mine":                       "unknown command",
	} {
		if _, stderr, code := spotdrill(t, append([]string{"init"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("init %s: exit code %d, want %q: %s", args, code, want, stderr)
		}
	}
	if text, _ := os.ReadFile("mine.yaml"); string(text) != "mine" {
		t.Errorf("mine.yaml is now %q", text)
	}
}
