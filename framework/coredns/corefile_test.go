package coredns

import (
	_ "embed"
	"reflect"
	"strings"
	"testing"
	"time"
)

// As kubeadm writes it.
//
//go:embed testdata/kubeadm.Corefile
var kubeadm string

func TestWhatACorefileSaysAboutTermination(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Corefile
		err  string
	}{
		"as kubeadm writes it":            {kubeadm, Corefile{Health: true, Ready: true, Lameduck: 5 * time.Second}, ""},
		"no lameduck":                     {".:53 {\n  health :8080\n  ready\n}\n", Corefile{Health: true, Ready: true}, ""},
		"no health":                       {".:53 {\n  ready\n}\n", Corefile{Ready: true}, ""},
		"comments are no settings":        {".:53 {\n  # ready\n  health {\n  # lameduck 5s\n  }\n}\n", Corefile{Health: true}, ""},
		"a property is no plugin":         {".:53 {\n  errors {\n    ready\n  }\n  health\n}\n", Corefile{Health: true}, ""},
		"an argument is no plugin":        {".:53 {\n  forward . health ready\n}\n", Corefile{}, ""},
		"lameducks of two blocks add up":  {"a {\n health :1 {\n lameduck 5s\n }\n}\nb {\n health :2 {\n lameduck 7s\n }\n}\n", Corefile{Health: true, Lameduck: 12 * time.Second}, ""},
		"a lone server without braces":    {"cluster.local\nhealth {\n  lameduck 3s\n}\nready\n", Corefile{Health: true, Ready: true, Lameduck: 3 * time.Second}, ""},
		"a snippet":                       {"(end) {\n  ready\n  health {\n    lameduck 9s\n  }\n}\n. {\n  import end\n}\n", Corefile{Health: true, Ready: true, Lameduck: 9 * time.Second}, ""},
		"a snippet that is not imported":  {"(end) {\n  ready\n}\n. {\n  errors\n}\n", Corefile{}, ""},
		"files are named, not read":       {". {\n  import custom/*.override\n}\nimport custom/*.server\n", Corefile{Imports: []string{"custom/*.override", "custom/*.server"}}, ""},
		"the last lameduck counts":        {". {\n health {\n lameduck 5s\n lameduck 6s\n }\n}\n", Corefile{Health: true, Lameduck: 6 * time.Second}, ""},
		"an empty one":                    {"", Corefile{}, ""},
		"lameduck without a unit":         {". {\n health {\n lameduck 5\n }\n}\n", Corefile{}, `line 3: lameduck "5" is not a duration`},
		"lameduck of the environment":     {". {\n health {\n lameduck {$LAMEDUCK}\n }\n}\n", Corefile{}, `line 3: lameduck "{$LAMEDUCK}" is not a duration`},
		"a brace too few":                 {". {\n health {\n}\n", Corefile{}, "line 1: an opening brace"},
		"a brace too many":                {". {\n}\n}\n", Corefile{}, "line 3: a closing brace"},
		"a snippet that imports itself":   {"(a) {\n import a\n}\n. {\n import a\n}\n", Corefile{}, "line 2: import a: snippets import each other"},
		"an import of nothing is nothing": {". {\n import\n}\n", Corefile{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestOnlyTheLameduckChanges(t *testing.T) {
	for name, c := range map[string]struct {
		text, was, becomes string
		d                  time.Duration
	}{
		"stated":                    {kubeadm, "lameduck 5s", "lameduck 30s", 30 * time.Second},
		"0 s is written":            {kubeadm, "lameduck 5s", "lameduck 0s", 0},
		"a comment stays":           {". {\n health {\n  lameduck 5s # why\n }\n}\n", "5s # why", "7s # why", 7 * time.Second},
		"a block without it":        {". {\n  health {\n  }\n}\n", "health {\n", "health {\n     lameduck 5s\n", 5 * time.Second},
		"no block":                  {". {\n  health :8080\n  ready\n}\n", "health :8080\n", "health :8080 {\n     lameduck 5s\n  }\n", 5 * time.Second},
		"no block, with a comment":  {". {\n  health # why\n}\n", "health # why\n", "health { # why\n     lameduck 5s\n  }\n", 5 * time.Second},
		"a comment above is let be": {". {\n  # lameduck 5s\n  health {\n    lameduck 1s\n  }\n}\n", "lameduck 1s", "lameduck 5s", 5 * time.Second},
		"of two the first waits":    {"a {\n health {\n lameduck 5s\n }\n}\nb {\n health {\n lameduck 5s\n }\n}\n", "5s\n }\n}\nb {\n health {\n lameduck 5s", "9s\n }\n}\nb {\n health {\n lameduck 0s", 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := WithLameduck(c.text, c.d)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(c.text, c.was, c.becomes, 1); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	for text, want := range map[string]string{
		".:53 {\n    ready\n}\n":   "no `health { lameduck",
		". {\n  health { }\n}\n":   "line 2: the lameduck of this health plugin cannot be changed",
		". {\n  health {\n  }\n\n": "line 1: an opening brace",
	} {
		if got, err := WithLameduck(text, 0); err == nil || got != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q became %q, %v, want %q", text, got, err, want)
		}
	}
}

// The lameduck that is set is read back, whatever the rest of the file is.
func FuzzWithLameduck(f *testing.F) {
	f.Add(kubeadm)
	f.Add("(a) {\n health\n}\n. {\n import a\n}\nb {\n import a\n}")
	f.Add("cluster.local\nhealth")
	f.Fuzz(func(t *testing.T, text string) {
		before, err := Parse(text)
		if err != nil || !before.Health {
			return
		}
		set, err := WithLameduck(text, 7*time.Second)
		if err != nil && strings.Contains(err.Error(), "cannot be changed") {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		after, err := Parse(set)
		if err != nil || after.Lameduck < 7*time.Second || after.Ready != before.Ready {
			t.Errorf("%q became %q, which reads as %+v, %v", text, set, after, err)
		}
	})
}

func TestADelayIsOneServerBlockMore(t *testing.T) {
	const was = ".:53 {\n    health {\n       lameduck 5s\n    }\n}\n"
	once := WithDelay(was, 100*time.Millisecond)
	if want := was + "\ndelayed.spotdrill.test:53 {\n    erratic {\n        delay 1 100ms\n    }\n}\n"; once != want {
		t.Errorf("got %q, want %q", once, want)
	}
	if c, err := Parse(once); err != nil || c.Lameduck != 5*time.Second {
		t.Errorf("parsed as %+v, %v", c, err)
	}
	if got := WithDelay(once, 200*time.Millisecond); got != strings.Replace(once, "100ms", "200ms", 1) {
		t.Errorf("another delay: %q", got)
	}
	if got := WithDelay(once, 0); got != was {
		t.Errorf("without a delay: %q", got)
	}
}
