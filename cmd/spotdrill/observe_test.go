package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/observe"
)

// A wrong use of your own cluster ends before anything is asked of it.
func TestYourOwnClusterIsNotTouchedByMistake(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for name, c := range map[string]struct {
		args, want string
		code       int
	}{
		"nothing to observe":           {"observe --context a --image example/b", "give --for, or a command", exitUsage},
		"too long":                     {"observe --for 5h --image example/b", "--for is 5h", exitUsage},
		"no image to be had":           {"observe --for 1m", "no access to a cluster", exitUsage},
		"a malformed image":            {"observe --for 1m --image Not:A:Reference", "--image is \"Not:A:Reference\"", exitUsage},
		"a malformed namespace":        {"observe --for 1m --namespace Bad_NS", "--namespace is \"Bad_NS\"", exitUsage},
		"rights for nobody":            {"observe --print-rbac", "--print-rbac needs --subject", exitUsage},
		"rights for what is nobody":    {"observe --print-rbac --subject ana", "\"ana\" is no subject: want user:NAME", exitUsage},
		"rights in no namespace":       {"observe --print-rbac --subject user:ana --namespace Bad_NS", "--namespace: \"Bad_NS\"", exitUsage},
		"rights for no service":        {"live --print-rbac --subject user:ana --service kube-system/Kube_DNS", "--service: \"Kube_DNS\"", exitUsage},
		"a share above all":            {"observe --for 1m --image example/b --slo 100.5", "--slo", exitUsage},
		"no name of a service":         {"observe --for 1m --image example/b --service kube-dns", "--service", exitUsage},
		"too few queries":              {"observe --for 1m --image example/b --rate 5", "--rate is 5", exitUsage},
		"no cluster":                   {"observe --for 1m --image example/b", "no access to a cluster", exitUsage},
		"a flag of live":               {"run coredns-evicted --context a", "unknown flag: --context; spotdrill live drills your own cluster: spotdrill live [DRILL...] --context CONTEXT", exitUsage},
		"another flag of live":         {"run spot-notice-drains-node --allow drain", "unknown flag: --allow; spotdrill live", exitUsage},
		"a drill of live":              {"run coredns-evicted", "is a drill of your own cluster: spotdrill live coredns-evicted", exitUsage},
		"flags of spotdrill's cluster": {"live --context a --set full", "unknown flag: --set", exitUsage},
		"no cluster named":             {"live coredns-evicted --allow evict-coredns", "--context or --kubeconfig", exitUsage},
		"another permission":           {"live --context a --allow reclaim", "\"reclaim\" is not known; allowed: ", exitUsage},
		"a drill of spotdrill's own":   {"live spot-notice-drains-node --context a", "is no drill of your own cluster", exitUsage},
		"a file of spotdrill's own":    {"live ../../scenarios/catalogue/spot/spot-notice-drains-node.yaml --context a", "needs observe.permission", exitUsage},
		"no such context":              {"live coredns-evicted --context a", "context \"a\" does not exist", exitUsage},
		"nothing to put back":          {"restore --journal " + t.TempDir(), "there is nothing to put back", 0},
		"the rights":                   {"live --print-rbac --subject group:sre --allow evict-coredns", `subjects: [{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"sre"}]`, 0},
		"the rights to observe":        {"observe --print-rbac --subject user:ana", "pod-security.kubernetes.io/enforce: restricted", 0},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := spotdrill(t, strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", code, c.code, c.want, stdout, stderr)
			}
		})
	}
}

func TestADamagedJournalIsNamed(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "broken.jsonl"), []byte("{\"format\":\"another\"}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := spotdrill(t, "restore", "--journal", folder)
	if code == 0 || !strings.Contains(stderr, "broken.jsonl") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// A journal that names ./kubeconfig is of no use from another folder.
func TestARecordedClusterIsFoundFromAnyFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, context := range map[string]string{"a": "one", "b": "two"} {
		text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: %[1]s\ncontexts: [{name: %[1]s, context: {cluster: %[1]s, user: %[1]s}}]\nclusters: [{name: %[1]s, cluster: {server: 'https://%[1]s.example'}}]\nusers: [{name: %[1]s, user: {token: x}}]\n", context)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		access          clusterAccess
		env             string
		server, context string
	}{
		"a relative file":             {clusterAccess{"a", ""}, "", "https://one.example", "one"},
		"files of the environment":    {clusterAccess{"", ""}, "b:a", "https://two.example", "two"},
		"a context among those files": {clusterAccess{"", "one"}, "b:a", "https://one.example", "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", c.env)
			t.Chdir(dir)
			recorded, err := c.access.recorded()
			if err != nil || recorded.context != c.context {
				t.Fatalf("%+v, %v", recorded, err)
			}
			t.Setenv("KUBECONFIG", "")
			t.Chdir(t.TempDir())
			if config, err := recorded.config(); err != nil || config.Host != c.server {
				t.Errorf("%+v: %v", recorded, err)
			}
		})
	}
}

func TestWhatRunsMeanwhile(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	clock := history.NewClock()
	rec, err := history.Create(t.TempDir(), clock, history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command []string
		limit   time.Duration
		want    string
	}{
		"it ends well":        {[]string{"sh", "-c", "echo rolled"}, 0, ""},
		"it fails":            {[]string{"sh", "-c", "exit 3"}, 0, "exit status 3"},
		"it takes too long":   {[]string{"sleep", "60"}, 100 * time.Millisecond, "took longer than it may: raise --for"},
		"it is not there":     {[]string{"no-such-command"}, 0, "no-such-command"},
		"only time passes":    {nil, 10 * time.Millisecond, ""},
		"its output is shown": {[]string{"echo", "shown"}, 0, ""},
	} {
		doing := runOrWait(c.command, c.limit, &out)
		ctx, cancel := context.WithTimeoutCause(t.Context(), cmp.Or(c.limit, time.Minute), observe.ErrTooLong)
		err := doing.Do(ctx, rec)
		cancel()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if doing.Words != shownCommand(c.command) {
			t.Errorf("%s: it is called %q", name, doing.Words)
		}
	}
	if !strings.Contains(out.String(), "rolled") || !strings.Contains(out.String(), "shown") {
		t.Errorf("output %q", out.String())
	}
	interrupted, stop := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, stop)
	start := time.Now()
	// A command that is interrupted may finish what it does.
	err = runOrWait([]string{"sh", "-c", "trap 'echo put back; exit 0' INT; while :; do sleep 0.05; done"}, 0, &out).Do(interrupted, rec)
	if time.Since(start) > 20*time.Second || !strings.Contains(out.String(), "put back") {
		t.Errorf("after %s: error %v, output %q", time.Since(start), err, out.String())
	}
}
