package recommend

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// configz answers as the kubelets of nodes do, by their names; a number is the status of a refusal.
type configz struct {
	*Manifests
	nodes map[string]string
}

func (c configz) RoundTrip(r *http.Request) (*http.Response, error) {
	name, isConfigz := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/proxy/configz")
	if !isConfigz {
		return c.Manifests.RoundTrip(r)
	}
	m := &Manifests{} // which refuses
	answer, err := m.RoundTrip(r)
	if text, ok := c.nodes[name]; ok && err == nil {
		answer.StatusCode, answer.Body = http.StatusOK, http.NoBody
		answer.Body = readCloser{strings.NewReader(text)}
		answer.ContentLength = int64(len(text))
	}
	return answer, err
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestKubeletsOfACluster(t *testing.T) {
	const off, guide, short = `{"kubeletconfig": {"shutdownGracePeriod": "0s"}}`, `{"kubeletconfig": {"shutdownGracePeriod": "150s", "shutdownGracePeriodCriticalPods": "30s"}}`, `{"kubeletconfig": {"shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "5s"}}`
	for name, c := range map[string]struct {
		nodes map[string]string
		want  []string
		has   string
	}{
		"both off":                    {map[string]string{"a": off, "b": off}, nil, "node shutdown: a, b: off: pods end with the operating system"},
		"as EKS sets it":              {map[string]string{"a": guide, "b": guide}, []string{"node-shutdown-ends-dns-in-time"}, "a, b: 2m30s, the last 30s of it for critical pods"},
		"two kinds of nodes":          {map[string]string{"a": short, "b": off}, []string{"lameduck-within-node-shutdown"}, "the kubelet kills CoreDNS 5s after its SIGTERM (a: 30s, the last 5s of it for critical pods)"},
		"one is refused":              {map[string]string{"a": short}, []string{"lameduck-within-node-shutdown", "node-shutdown-ends-dns-in-time?"}, "/configz of node b: "},
		"all are refused":             {nil, []string{"node-shutdown-ends-dns-in-time?"}, "likely 2m30s, the last 30s of it for critical pods, as EKS with AL2023"},
		"an answer of something else": {map[string]string{"a": `{"kind": "Node"}`, "b": off}, []string{"node-shutdown-ends-dns-in-time?"}, "/configz of node a: its answer has no kubeletconfig"},
		"a duration without a unit":   {map[string]string{"a": `{"kubeletconfig": {"shutdownGracePeriod": "30"}}`, "b": off}, []string{"node-shutdown-ends-dns-in-time?"}, "/configz of node a: the kubelet's configuration: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Manifests{whole: true}
			if err := m.add("eks.yaml", []byte(file(t, "eks.yaml")), "kube-system"); err != nil {
				t.Fatal(err)
			}
			config := m.Config()
			config.Transport = configz{m, c.nodes}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			_, none := cluster(t)
			d, err := Read(t.Context(), client, none, "kube-system", "")
			if err != nil {
				t.Fatal(err)
			}
			rules, found := rulesOf(t, d)
			_, shown := adviceOf(t, d)
			if !slices.Equal(rules, c.want) || !strings.Contains(shown, c.has) {
				t.Errorf("%v, want %v and %q: %+v\n%s", rules, c.want, c.has, found, shown)
			}
		})
	}
}
