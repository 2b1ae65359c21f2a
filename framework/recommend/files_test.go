package recommend

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Files as people have them, without a cluster. Each archive begins with what is right for it: the rules that are found
// (? after one that is unknown; … for those that only lack objects), and parts that the text has, or has not. Over is a
// file that comes first.
func TestFiles(t *testing.T) {
	paths, err := filepath.Glob("testdata/files/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			is := map[string][]string{}
			for line := range strings.Lines(string(archive.Comment)) {
				key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
				if !ok || !slices.Contains([]string{"want", "over", "has", "not", "at"}, key) {
					t.Fatalf("%q is none of want, over, has, not and at", line)
				}
				is[key] = append(is[key], strings.TrimPrefix(value, " "))
			}
			folder := t.TempDir()
			var names []string
			for _, base := range is["over"] {
				names = append(names, filepath.Join("testdata", base))
			}
			for _, f := range archive.Files {
				name := filepath.Join(folder, f.Name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, 0o600)); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			m, err := ReadManifests(nil, "kube-system", names...)
			if err != nil {
				t.Fatal(err)
			}
			d, err := m.Read(t.Context(), "kube-system", "")
			if err != nil {
				t.Fatal(err)
			}
			a, shown := adviceOf(t, d)
			all := len(is["want"]) == 1 && !strings.HasSuffix(is["want"][0], "…")
			var rules []string
			for _, f := range a.Findings {
				if f.Unknown && f.Fix == addToFiles && !all {
					continue
				}
				if f.Unknown {
					f.Rule += "?"
				}
				rules = append(rules, f.Rule)
			}
			if want := strings.Fields(strings.TrimSuffix(strings.Join(is["want"], " "), "…")); !slices.Equal(rules, want) {
				t.Errorf("got %v, want %v", rules, want)
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
			for _, at := range is["at"] {
				rule, place, _ := strings.Cut(at, " ")
				i := slices.IndexFunc(a.Findings, func(f Finding) bool { return f.Rule == rule })
				if i < 0 || a.Findings[i].At == nil || strings.TrimPrefix(a.Findings[i].At.String(), folder+"/") != place {
					t.Errorf("%s is not at %s: %+v", rule, place, a.Findings)
				}
			}
			if t.Failed() {
				t.Log(shown)
			}
		})
	}
}
