package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An error shows what was tried, what was seen and what to do.
func TestWhatANewcomerMeets(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	const unreachable = `
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
`
	if err := os.WriteFile("kubeconfig", []byte(unreachable), 0o600); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and does not answer
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := os.WriteFile("silent", []byte(strings.Replace(unreachable, "127.0.0.1:1", silent.Addr().String(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
		not  string
	}{
		{args: "recommend --kubeconfig kubeconfig", code: exitHarness, want: "the API server does not answer: dial tcp 127.0.0.1:1: connect: connection refused; does the cluster run"},
		{args: "observe --kubeconfig kubeconfig --for 5s", code: exitUsage, want: "--kubeconfig and --context choose another one"},
		{args: "live coredns-evicted --kubeconfig kubeconfig", code: exitUsage, want: "--kubeconfig and --context choose another one"},
		{args: "observe --kubeconfig silent --for 5s", code: exitUsage, want: "the API server does not answer"},
		{args: "live coredns-evicted --kubeconfig silent", code: exitUsage, want: "the API server does not answer"},
		{args: "recommend --kubeconfig silent", code: exitHarness, want: "the API server does not answer"},
		{args: "restore", code: exitUsage, want: "--journal names one"},
		{args: "init scenario nowhere/mine", code: exitUsage, want: "name a place in a folder that exists"},
		{args: "init handler my-handler", want: "handler.yaml"},
		{args: "run --dry-run --handler my-handler spot-notice-drains-node", want: "spot-notice-drains-node"},
		{args: "explain coredns-evicted", want: "play it: spotdrill live", not: "what happens:\n\n"},
	} {
		stdout, stderr, code := spotdrill(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) || c.not != "" && strings.Contains(stdout+stderr, c.not) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, c.want, stdout, stderr)
		}
	}
	if made, err := filepath.Glob("nowhere*"); err != nil || len(made) > 0 {
		t.Errorf("%v was made, %v", made, err)
	}
}
