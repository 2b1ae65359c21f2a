package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func how(version string) string { return "pin " + version }

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		name      string
		minors    bool
		pinned    string
		available string
		want      string // PINNED→NEWER by comma; ? for unknown
		code      int
	}{
		{name: "nothing is newer", pinned: "v1.14.7 v1.15.0", available: "v1.14.7 v1.15.0 v1.14.9", want: "v1.15.0→"},
		{name: "a newer release", pinned: "v1.15.0", available: "v1.15.0 v1.15.1", want: "v1.15.0→v1.15.1", code: 1},
		{name: "numbers, not letters", pinned: "v1.9.0", available: "v1.10.0 v1.9.1", want: "v1.9.0→v1.10.0", code: 1},
		{name: "a preview is no release", pinned: "v1.15.0", available: "v1.15.0 v1.16.0-rc.1 v1.16.0+incompatible", want: "v1.15.0→"},
		{name: "the proxy lists only older ones", pinned: "v1.15.0", available: "v1.14.0", want: "v1.15.0→"},
		{name: "the proxy lists none", pinned: "v1.15.0", available: "", want: "v1.15.0→?", code: 2},
		{
			name: "each minor on its own", minors: true, pinned: "v1.36.3 v1.35.4 v1.35.1", available: "v1.35.5 v1.36.3 v1.34.9",
			want: "v1.35.4→v1.35.5,v1.36.3→", code: 1,
		},
		{name: "a newer minor", minors: true, pinned: "v1.36.3", available: "v1.36.3 v1.37.0", want: "v1.36.3→,v1.36.3→v1.37.0", code: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			pins := []pin{{name: "x", module: "example.org/x", versions: strings.Fields(c.pinned), minors: c.minors, how: how}}
			rows := compare(t.Context(), pins, func(context.Context, string) ([]string, error) { return strings.Fields(c.available), nil })
			var got []string
			for _, r := range rows {
				text := r.pinned + "→" + r.newer
				if r.err != nil {
					text += "?"
				}
				if (r.newer == "") != (r.pin == "") || r.newer != "" && r.pin != "pin "+r.newer {
					t.Errorf("%+v: it is pinned by %q", r, r.pin)
				}
				got = append(got, text)
			}
			if strings.Join(got, ",") != c.want || code(rows) != c.code {
				t.Errorf("got %v and exit code %d, want %s and %d", got, code(rows), c.want, c.code)
			}
		})
	}
}

// A module that the proxy refuses is unknown, not up to date; the others are still shown.
func TestARefusedModuleIsUnknown(t *testing.T) {
	pins := []pin{{name: "one", module: "a", versions: []string{"v1.0.0"}, how: how}, {name: "two", module: "b", versions: []string{"v2.0.0"}, how: how}}
	rows := compare(t.Context(), pins, func(_ context.Context, module string) ([]string, error) {
		if module == "a" {
			return nil, errors.New("403 Forbidden\nnot | available")
		}
		return []string{"v2.0.0"}, nil
	})
	var text strings.Builder
	if err := write(&text, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| one          | v1.0.0    | unknown   | 403 Forbidden not / available |\n", "| two          | v2.0.0    | -         |  |\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if code(rows) != 2 {
		t.Errorf("exit code %d", code(rows))
	}
}

// What is pinned can be read, and each program has its module.
func TestWhatIsPinned(t *testing.T) {
	all, err := pins("../..")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range all {
		if p.module == "" || len(p.versions) == 0 || !strings.Contains(p.how("v9.9.9"), "v9.9.9") {
			t.Errorf("%s %s %v", p.name, p.module, p.versions)
		}
		names = append(names, p.name)
	}
	if got := strings.Join(names, " "); got != "kubernetes coredns karpenter nth kwok kind containerd cni" {
		t.Errorf("got %s", got)
	}
}
