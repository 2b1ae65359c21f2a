package main

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write into the pages what they show")

// served answers as the API server of a cluster with the objects of a file, and nothing else:
// lists of other kinds are empty. It fails the test if a request would change anything.
func served(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects, lists := map[string]any{}, map[string][]any{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var obj unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		prefix := "/apis/" + obj.GetAPIVersion()
		if obj.GetAPIVersion() == "v1" {
			prefix = "/api/v1"
		}
		resource := strings.ToLower(obj.GetKind()) + "s"
		all := path.Join(prefix, resource)
		lists[all] = append(lists[all], obj.Object)
		if ns := obj.GetNamespace(); ns != "" {
			all = path.Join(prefix, "namespaces", ns, resource)
			lists[all] = append(lists[all], obj.Object)
		}
		objects[path.Join(all, obj.GetName())] = obj.Object
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		answer, found := objects[r.URL.Path]
		switch parts := strings.Split(r.URL.Path, "/"); {
		case found:
		case strings.HasSuffix(r.URL.Path, "/proxy/configz"):
			answer = map[string]any{"kubeletconfig": map[string]any{"shutdownGracePeriod": "0s", "shutdownGracePeriodCriticalPods": "0s"}}
		case r.URL.Path == "/api" || r.URL.Path == "/apis":
			answer = map[string]any{}
		case lists[r.URL.Path] != nil || len(parts) == 4 || len(parts) == 5 && parts[1] == "apis" || parts[len(parts)-3] == "namespaces":
			answer = map[string]any{"items": append([]any{}, lists[r.URL.Path]...), "metadata": map[string]any{}}
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfig(t, server.URL)
}

// A page shows what a command prints, or what a file has: between a line of the page and the end of the
// block. go test ./cmd/spotdrill -run WhatThePagesShow -update writes it.
func TestWhatThePagesShowIsReal(t *testing.T) {
	t.Chdir("../..")
	printed := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := spotdrill(t, args...)
		if code != exitFailed {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	file := func(name string) string {
		text, err := os.ReadFile("docs/examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, c := range []struct{ page, after, want string }{
		{"README.md", "`docs/examples/coredns-values.yaml`:\n\n```yaml\n", file("coredns-values.yaml")},
		{"README.md", "$ spotdrill recommend -f docs/examples/coredns-values.yaml\n", printed("recommend", "-f", "docs/examples/coredns-values.yaml")},
		{"docs/advice.md", "$ spotdrill recommend\n", printed("recommend", "--kubeconfig", served(t, "cmd/spotdrill/testdata/kubeadm.yaml"))},
		{"docs/testing-your-handler.md", "`handler.yaml`:\n\n```yaml\n", file("my-handler/handler.yaml")},
		{"docs/testing-your-handler.md", "`manifests.yaml`:\n\n```yaml\n", file("my-handler/manifests.yaml")},
		{"docs/writing-a-scenario.md", "`my-scenario.yaml`:\n\n```yaml\n", file("my-scenario.yaml")},
	} {
		text, err := os.ReadFile(c.page)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, found := strings.Cut(string(text), c.after)
		shown, after, closed := strings.Cut(rest, "```")
		switch {
		case !found || !closed:
			t.Errorf("%s has no block after %q", c.page, c.after)
		case shown == c.want:
		case !*update:
			t.Errorf("%s does not show what it should; -update writes it:\n%s", c.page, c.want)
		default:
			if err := os.WriteFile(c.page, []byte(before+c.after+c.want+"```"+after), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
