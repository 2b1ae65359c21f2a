package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const unreachable = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
current-context: here
`

func TestRecommendSaysWhichClusterItCannotRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(unreachable), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nobody answers":  {[]string{"--kubeconfig", file}, exitHarness, "cluster at https://127.0.0.1:1: read Deployment kube-system/coredns: "},
		"no such file":    {[]string{"--kubeconfig", filepath.Join(filepath.Dir(file), "none")}, exitUsage, "name one with --kubeconfig and --context"},
		"no such context": {[]string{"--kubeconfig", file, "--context", "there"}, exitUsage, `context "there" does not exist`},
	} {
		stdout, stderr, code := spotdrill(t, append([]string{"recommend"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: exit code %d, want %d and %q; said %q and printed %q", name, code, c.code, c.want, stderr, stdout)
		}
	}
}
