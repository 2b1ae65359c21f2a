package recommend

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// anyKubernetes is the plugin kubernetes with its properties, which starts only in a cluster.
var anyKubernetes = regexp.MustCompile(`(?m)^(\s*)kubernetes[^\n{]*(?:\{[^}]*\})?\r?\n`)

// Clusters as their distributions, charts and operators make them. Each file begins with what is right for it: the
// rules that must be found (? after one that is unknown), and parts that the text has, or has not.
func TestClustersInFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/clusters/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			head, objects, _ := strings.Cut(string(text), "\n---\n")
			is := map[string][]string{}
			for line := range strings.Lines(head) {
				key, value, ok := strings.Cut(strings.TrimPrefix(line, "# "), ":")
				if !ok || !slices.Contains([]string{"want", "over", "has", "not"}, key) {
					t.Fatalf("%q is none of want, over, has and not", line)
				}
				is[key] = append(is[key], strings.TrimSpace(value))
			}
			documents := []string{objects}
			for _, base := range is["over"] {
				documents = []string{file(t, base), objects}
			}
			a, shown := adviceFor(t, documents...)
			patched(t, a)
			if a.Patch.Corefile != "" && os.Getenv("SPOTDRILL_COREDNS") != "" {
				s := start(t, realCoreDNS(t), map[string]string{"Corefile": onFreePorts(t, anyKubernetes.ReplaceAllString(a.Patch.Corefile, "${1}whoami\n"))})
				if s.refused != "" {
					t.Errorf("CoreDNS refuses the printed Corefile: %s\n%s", s.refused, a.Patch.Corefile)
				}
			}
			var rules []string
			for _, f := range a.Findings {
				if f.Unknown {
					f.Rule += "?"
				}
				rules = append(rules, f.Rule)
			}
			if want := strings.Join(is["want"], " "); strings.Join(rules, " ") != want {
				t.Errorf("got %v, want %s", rules, want)
			}
			for _, part := range is["has"] {
				if !strings.Contains(shown, part) {
					t.Errorf("%q is missing", part)
				}
			}
			for _, part := range is["not"] {
				if strings.Contains(shown, part) {
					t.Errorf("%q is there", part)
				}
			}
			if t.Failed() {
				t.Log(shown)
			}
		})
	}
}
