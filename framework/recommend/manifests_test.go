package recommend

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

// What is in no file is unknown for the rules that need it; and no kind of it is taken for none.
func TestWhatIsInNoFileIsUnknown(t *testing.T) {
	base := strings.Split(file(t, "base.yaml"), "\n---\n")
	without := func(kind string) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(base), func(o string) bool { return strings.Contains(o, "\nkind: "+kind+"\n") }), "\n---\n")
	}
	const pool = "\n---\n" + aPool
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"all":                                   {file(t, "base.yaml"), nil},
		"no budget":                             {without("PodDisruptionBudget"), []string{"budget?"}},
		"no nodes":                              {without("Node"), []string{"not-all-on-spot?", "replicas-for-cluster-size?"}},
		"no pods":                               {without("Pod"), []string{"not-all-on-spot?"}},
		"no ConfigMaps":                         {without("ConfigMap"), []string{"corefile?"}},
		"a DaemonSet":                           {strings.Replace(without("Pod"), "kind: Deployment", "kind: DaemonSet", 1), []string{"replicas?", "not-all-on-spot?"}},
		"a pool of Karpenter, and no Karpenter": {file(t, "base.yaml") + pool, []string{"karpenter?"}},
		"Karpenter, and nothing of its API":     {file(t, "base.yaml") + "\n---\n" + installed("Deployment", "karpenter", "karpenter", "{name: controller, image: 'karpenter/controller:1.8.0'}", ""), []string{"karpenter-interruption-queue", "nodepools-overlap?", "one-interruption-handler?"}},
		"a node of Karpenter, and nothing else of it":   {file(t, "base.yaml") + "\n---\n" + node("node-c", "karpenter.sh/nodepool: general"), []string{"karpenter?"}},
		"Karpenter, and no kinds that handlers run as":  {file(t, "base.yaml") + pool + "\n---\n" + installed("Deployment", "karpenter", "karpenter", aController, ""), []string{"one-interruption-handler?"}},
		"Karpenter of an earlier version, and no queue": {file(t, "base.yaml") + pool + "\n---\n" + installed("Deployment", "karpenter", "karpenter", "{name: controller, image: 'karpenter/controller:0.32.1'}", ""), []string{"karpenter-interruption-queue?", "one-interruption-handler?"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Manifests{}
			if err := m.add("objects.yaml", []byte(c.text), "kube-system"); err != nil {
				t.Fatal(err)
			}
			d, err := m.Read(t.Context(), "kube-system", "")
			if err != nil {
				t.Fatal(err)
			}
			if rules, found := rulesOf(t, d); !slices.Equal(rules, c.want) {
				t.Errorf("%v, want %v: %+v", rules, c.want, found)
			}
		})
	}
}

func TestReadManifests(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		at := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return at
	}
	const one, two = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "dns"}}, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]}`
	write("objects/deep/one.yaml", "# none\n---\n"+one+"---\n"+one)
	write("objects/two.json", two)
	write("objects/README.md", "no object")
	write("mixed/Corefile", ".:53 {\n  health\n}\n")
	write("mixed/.github/workflow.yml", "on: push\n")
	write("mixed/chart/Chart.yaml", "apiVersion: v2\nname: c\n")
	write("templates/x.yaml", "kind: {{ .Values.kind }}\n")
	write("none/README.md", "no object")
	write("large.yaml", strings.Repeat("#", mostManifests+1))
	for name, c := range map[string]struct {
		paths []string
		want  string // kinds, namespaces and names, or the error
	}{
		"a folder with a Corefile": {[]string{filepath.Join(folder, "mixed")}, "ConfigMap kube-system/coredns"},
		"a folder of templates":    {[]string{filepath.Join(folder, "templates")}, "it seems to be a template: give what helm template makes of it"},
		"a folder of nothing":      {[]string{filepath.Join(folder, "none")}, "none: no file in this folder, or in those below it, ends with .yaml, .yml or .json, or begins with Corefile"},
		"nothing on stdin":         {[]string{write("empty.yaml", "---\n# none\n")}, "nothing of it is judged: it is empty; did the command before it fail?"},
		"too much":                 {[]string{filepath.Join(folder, "large.yaml")}, "large.yaml: the files have more than 64 MiB"},
		"a kubelet without a unit": {[]string{write("kubelet.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nshutdownGracePeriod: 30\n")}, "kubelet.yaml: document 1: KubeletConfiguration : the kubelet's configuration: "},
		"values of another type":   {[]string{write("wrong.yaml", "isClusterService: true\nreplicaCount: two\n")}, "wrong.yaml: values of the chart coredns: Deployment coredns: spec.replicas is a string, and must be a number"},
		"a folder":                 {[]string{filepath.Join(folder, "objects")}, "ConfigMap kube-system/a, ConfigMap dns/a, Pod kube-system/p"},
		"a file and stdin":         {[]string{filepath.Join(folder, "objects", "two.json"), "-"}, "ConfigMap dns/a, Pod kube-system/p, ConfigMap kube-system/a"},
		"no such file":             {[]string{filepath.Join(folder, "missing")}, "no such file"},
		"values of a chart":        {[]string{write("values.yaml", "replicas: 2\n")}, "values.yaml: document 1 is no object of Kubernetes"},
		"no YAML":                  {[]string{write("x.yaml", "a: [")}, "x.yaml: document 1: "},
		"all that are wrong":       {[]string{filepath.Join(folder, "values.yaml"), filepath.Join(folder, "x.yaml")}, "x.yaml: document 1: "},
		"a label that is true":     {[]string{write("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {spot: true}}\n")}, "node.yaml: document 1: Node a: metadata.labels is a bool, and must be a string: quote it"},
		"a spec of no fields":      {[]string{write("spec.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: x\n")}, "spec.yaml: document 1: Deployment a: spec is a string, and must be fields"},
		"a number in quotes":       {[]string{write("number.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: '2'}\n")}, "spec.replicas is a string, and must be a number"},
		"text of no fields":        {[]string{write("text.yaml", "CoreDNS is now running in the cluster.\n")}, "text.yaml: document 1 is no object of Kubernetes"},
		"a Corefile in any file":   {[]string{write("text.conf", "# zones\n.:53 {\n  health\n}\n")}, "ConfigMap kube-system/coredns"},
		"a Corefile":               {[]string{write("Corefile.own", ".:53 {\n  health\n}\n")}, "ConfigMap kube-system/coredns"},
		"a list as the API has it": {[]string{write("raw.json", `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}`)}, "Node kube-system/a"},
		"an item that is nothing":  {[]string{write("null.yaml", "apiVersion: v1\nkind: List\nitems: [null]\n")}, "null.yaml: document 1: an item of the list has no kind"},
		"an item of no kind":       {[]string{write("list.yaml", "apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n")}, "list.yaml: "},
	} {
		m, err := ReadManifests(strings.NewReader(one), "kube-system", c.paths...)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		var got []string
		for _, o := range m.objects {
			got = append(got, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// Whatever the files have, the advice is written or an error is returned.
func FuzzManifests(f *testing.F) {
	text, err := os.ReadFile("testdata/base.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(string(text) + "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: coredns, namespace: kube-system}\ndata: {Corefile: x}\n")
	paths, err := filepath.Glob("testdata/files/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			f.Add(string(file.Data))
		}
	}
	f.Add("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: 3}}]")
	f.Fuzz(func(t *testing.T, text string) {
		m, lines := &Manifests{}, strings.Count(text, "\n")+1
		if m.add("objects.yaml", []byte(text), "kube-system") != nil {
			return
		}
		if m.render("kube-system") != nil {
			return
		}
		d, err := m.Read(t.Context(), "kube-system", "")
		if err != nil {
			return
		}
		a, text := adviceOf(t, d)
		for _, f := range a.Findings {
			if f.At != nil && (f.At.Line < 1 || f.At.Line > lines) {
				t.Errorf("%s is at line %d of %d", f.Rule, f.At.Line, lines)
			}
		}
		if a.Patch.Deployment != "" {
			var patch map[string]any
			if err := yaml.Unmarshal([]byte(a.Patch.Deployment), &patch); err != nil {
				t.Errorf("%v in %s", err, text)
			}
		}
	})
}

// Only reading is answered.
func TestManifestsAreReadOnly(t *testing.T) {
	m := &Manifests{}
	for method, path := range map[string]string{http.MethodPost: "/api/v1/namespaces/a/pods", http.MethodDelete: "/api/v1/namespaces/a/pods/b", http.MethodGet: "/apis/apps"} {
		r := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		answer, err := m.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		var status struct{ Kind, Message string }
		if err := errors.Join(json.NewDecoder(answer.Body).Decode(&status), answer.Body.Close()); err != nil || answer.StatusCode < 400 || status.Kind != "Status" {
			t.Errorf("%s %s: %d, %+v, %v", method, path, answer.StatusCode, status, err)
		}
	}
}
