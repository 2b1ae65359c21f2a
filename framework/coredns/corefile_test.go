package coredns

import (
	_ "embed"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy/caddyfile"
)

// As kubeadm writes it.
//
//go:embed testdata/kubeadm.Corefile
var kubeadm string

// pods are what the pods of the tests have next to their Corefile.
func pods(text string) Source {
	return Source{
		Text: text,
		Import: func(pattern string) ([]File, error) {
			switch pattern {
			case "/custom/*.override":
				return []File{{"/custom/a.override", "health {\n lameduck 15s\n}\n"}}, nil
			case "/custom/two.conf":
				return []File{{"/custom/two.conf", "lameduck 9s"}}, nil
			case "/server/*.conf":
				return []File{{"/server/a.conf", "corp.example {\n health :8081 {\n lameduck 4s\n }\n}\n"}}, nil
			case "/secret/*":
				return nil, errors.New("a Secret")
			}
			return nil, nil
		},
		Env: func(name string) (string, bool) {
			value, ok := map[string]string{"LAMEDUCK": "7s", "PORT": "8282", "EMPTY": ""}[name]
			return value, ok
		},
	}
}

func TestWhatACorefileSaysAboutTermination(t *testing.T) {
	at := func(ports ...string) (out []Address) {
		for _, p := range ports {
			out = append(out, Address{Port: p})
		}
		return out
	}
	const s = time.Second
	for name, c := range map[string]struct {
		text string
		want Corefile // Refused and LameduckUnknown are parts of what is got
	}{
		"as kubeadm writes it":           {kubeadm, Corefile{Health: at("8080"), Ready: at("8181"), Lameduck: 5 * s}},
		"no lameduck":                    {".:53 {\n  health :8080\n  ready\n}\n", Corefile{Health: at("8080"), Ready: at("8181")}},
		"no health":                      {".:53 {\n  ready\n}\n", Corefile{Ready: at("8181")}},
		"comments are no settings":       {".:53 {\n  # ready\n  health {\n  # lameduck 5s\n  }\n}\n", Corefile{Health: at("8080")}},
		"a property is no plugin":        {".:53 {\n  errors {\n    ready\n  }\n  health\n}\n", Corefile{Health: at("8080")}},
		"an argument is no plugin":       {".:53 {\n  forward . health ready\n}\n", Corefile{}},
		"lameducks of two blocks add up": {"a {\n health :1 {\n lameduck 5s\n }\n}\nb {\n health :2 {\n lameduck 7s\n }\n}\n", Corefile{Health: at("1", "2"), Lameduck: 12 * s}},
		"of two in one block the last":   {". {\n health :1 {\n lameduck 5s\n }\n health {\n lameduck 7s\n }\n}\n", Corefile{Health: at("1"), Lameduck: 7 * s}},
		"zones of a block share it":      {"a. b. {\n health {\n lameduck 7s\n }\n ready\n}\n", Corefile{Health: at("8080"), Ready: at("8181"), Lameduck: 7 * s}},
		"addresses on several lines":     {"a.,\nb. {\n ready\n}\n. {\n whoami\n}\n", Corefile{Ready: at("8181")}},
		"a brace below":                  {".\n{\n ready\n}\n", Corefile{Ready: at("8181")}},
		"a lone server without braces":   {"cluster.local\nhealth {\n  lameduck 3s\n}\nready\n", Corefile{Health: at("8080"), Ready: at("8181"), Lameduck: 3 * s}},
		"a snippet":                      {"(end) {\n  ready\n  health {\n    lameduck 9s\n  }\n}\n. {\n  import end\n}\n", Corefile{Health: at("8080"), Ready: at("8181"), Lameduck: 9 * s}},
		"a snippet within a plugin":      {"(end) {\n  lameduck 9s\n}\n. {\n  health {\n import end\n }\n}\n", Corefile{Health: at("8080"), Lameduck: 9 * s}},
		"a snippet that is not imported": {"(end) {\n  ready\n}\n. {\n  errors\n}\n", Corefile{}},
		"ports of their own":             {". {\n health 127.0.0.1:9\n ready 0.0.0.0:8190\n}\n", Corefile{Health: []Address{{"127.0.0.1", "9"}}, Ready: at("8190")}},
		"the last lameduck counts":       {". {\n health {\n lameduck 5s\n lameduck 6s\n }\n}\n", Corefile{Health: at("8080"), Lameduck: 6 * s}},
		"an empty one":                   {"", Corefile{Default: true}},

		"an imported file":                  {". {\n health {\n lameduck 5s\n }\n import /custom/*.override\n}\n", Corefile{Health: at("8080"), Lameduck: 15 * s}},
		"one within a plugin":               {". {\n health {\n import /custom/two.conf\n }\n}\n", Corefile{Health: at("8080"), Lameduck: 9 * s}},
		"imported server blocks":            {". {\n ready\n}\nimport /server/*.conf\n", Corefile{Health: at("8081"), Ready: at("8181"), Lameduck: 4 * s}},
		"a pattern that matches nothing":    {". {\n import /none/*.conf\n}\n", Corefile{Nothing: []string{"/none/*.conf"}}},
		"only a pattern without a match":    {"import /none/*.conf\n", Corefile{Nothing: []string{"/none/*.conf"}, Default: true}},
		"a file that is missing":            {". {\n ready\n import /none/a.conf\n}\n", Corefile{Ready: at("8181"), Refused: "line 3: import /none/a.conf: there is no such file", LameduckUnknown: "what follows the error in line 3", Unread: []string{"what follows the error in line 3: import /none/a.conf: there is no such file in the pods"}}},
		"a file that is unknown":            {". {\n import /secret/*\n}\n", Corefile{Unread: []string{"/secret/* (a Secret)"}, LameduckUnknown: "may be set in /secret/*"}},
		"a variable":                        {". {\n health {\n lameduck {$LAMEDUCK}\n }\n ready :{%PORT%}\n}\n", Corefile{Health: at("8080"), Ready: at("8282"), Lameduck: 7 * s}},
		"a variable that is unknown":        {". {\n health {\n lameduck {$OTHER}\n }\n ready :{$OTHER}\n}\n", Corefile{Health: at("8080"), Ready: at(""), LameduckUnknown: "line 3: lameduck {$OTHER}: the value of this environment variable is unknown"}},
		"a variable for a zone and a file":  {"{$OTHER}:53 {\n ready\n import {$OTHER}/x\n}\n", Corefile{Ready: at("8181"), Unread: []string{"{$OTHER}/x"}, LameduckUnknown: "{$OTHER}/x"}},
		"a variable that is empty is a gap": {". {\n health {\n lameduck {$EMPTY}\n }\n}\n", Corefile{Health: at("8080"), Refused: "line 3: lameduck is empty", LameduckUnknown: "line 3"}},

		"lameduck without a unit":             {". {\n health {\n lameduck 5\n }\n ready\n}\n", Corefile{Health: at("8080"), Ready: at("8181"), Refused: `line 3: lameduck "5" is not a duration`, LameduckUnknown: "line 3"}},
		"a plugin on one line":                {". {\n health { lameduck 12s }\n ready\n}\n", Corefile{Health: at("8080"), Ready: at("8181"), Refused: "line 2: lameduck 12s }: write the property and the closing brace on a line each", LameduckUnknown: "line 2"}},
		"a block on one line":                 {". { whoami }\n", Corefile{Refused: "line 1: a closing brace without an opening one", Unread: []string{"what follows the error in line 1: a closing brace without an opening one: a block needs a line of its own for each plugin, and for its closing brace"}, LameduckUnknown: "line 1"}},
		"a block in a block":                  {". {\n ready\n . {\n  hosts /x\n }\n}\n", Corefile{Ready: at("8181"), Refused: `line 3: "." is no plugin`}},
		"a brace without a blank":             {". {\n ready\n hosts x y{\n  ttl 5\n }\n whoami\n}\n", Corefile{Ready: at("8181"), Refused: `line 4: "ttl" is no plugin`}},
		"a plugin that is misspelt":           {". {\n helth\n}\n", Corefile{Refused: `line 2: "helth" is no plugin of CoreDNS`}},
		"a property that is misspelt":         {". {\n health {\n lameduk 5s\n }\n}\n", Corefile{Health: at("8080"), Refused: `line 3: health has no property "lameduk"`, LameduckUnknown: "line 3"}},
		"an address without a port":           {". {\n ready localhost\n}\n", Corefile{Ready: at(""), Refused: "line 2: ready localhost is no address with a port"}},
		"ready twice in a block":              {". {\n ready\n ready\n}\n", Corefile{Ready: at("8181"), Refused: "ready is there 2 times"}},
		"an address twice":                    {".:53 {\n ready\n}\n. {\n whoami\n}\n", Corefile{Ready: at("8181"), Refused: "the address . is defined twice"}},
		"an address twice, with a view":       {".:53 {\n ready\n view a {\n expr true\n }\n}\n. {\n whoami\n}\n", Corefile{Ready: at("8181")}},
		"an address twice, in another case":   {"a.test {\n}\nA.test {\n}\n", Corefile{Refused: "the address A.test is defined twice"}},
		"an address twice, by its transport":  {"tls://a.test {\n}\ntls://a.test.:853 {\n}\n", Corefile{Refused: "the address tls://a.test.:853 is defined twice"}},
		"a zone by several transports":        {"tls://a.test {\n}\na.test {\n}\n", Corefile{}},
		"a blank before a comma":              {"a.test , b.test {\n}\n", Corefile{Refused: `the address "" has no zone`}},
		"a port without a zone":               {":53 {\n}\n", Corefile{Refused: `the address ":53" has no zone`}},
		"a port that there is not":            {". {\n health :70000\n ready :0\n}\n", Corefile{Health: at(""), Ready: at(""), Refused: "line 2: health :70000: there is no such port", LameduckUnknown: "line 2"}},
		"a way to monitor that ready has not": {". {\n ready {\n monitor sometimes\n }\n}\n", Corefile{Ready: at("8181"), Refused: `line 3: ready has no property "monitor sometimes"`}},
		"a variable with a default":           {". {\n health {\n lameduck {$OTHER:5s}\n }\n}\n", Corefile{Health: at("8080"), Refused: "line 3: lameduck is empty: CoreDNS has no default values", LameduckUnknown: "line 3"}},
		"a last brace too few":                {". {\n health {\n}\n", Corefile{Health: at("8080")}},
		"a brace too many":                    {". {\n}\n}\n", Corefile{}},
		"a snippet that imports itself":       {"(a) {\n import a\n}\n. {\n import a\n}\n", Corefile{Refused: "line 2: the snippet (a) imports itself", Unread: []string{"*"}, LameduckUnknown: "line 2"}},
		"snippets that import each other":     {"(a) {\n import b\n}\n(b) {\n import a\n}\n. {\n import a\n}\n", Corefile{Refused: "import each other endlessly", Unread: []string{"*"}, LameduckUnknown: "endlessly"}},
		"an import of nothing":                {". {\n import\n}\n", Corefile{Refused: "line 2: import names no file", Unread: []string{"*"}, LameduckUnknown: "line 2"}},
		"two wildcards":                       {". {\n import /*/*\n}\n", Corefile{Refused: "only one wildcard", Unread: []string{"*"}, LameduckUnknown: "wildcard"}},
		"a comma before a brace":              {"a, {\n}\n", Corefile{Refused: "line 1: a comma is followed by no address", Unread: []string{"*"}, LameduckUnknown: "comma"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Read(pods(c.text))
			got.parser = nil
			for _, part := range []struct{ got, want *string }{{&got.Refused, &c.want.Refused}, {&got.LameduckUnknown, &c.want.LameduckUnknown}} {
				if *part.want != "" && strings.Contains(*part.got, *part.want) {
					*part.want = *part.got
				}
			}
			if slices.Equal(c.want.Unread, []string{"*"}) && len(got.Unread) == 1 {
				c.want.Unread = got.Unread
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%+v, want\n%+v", got, c.want)
			}
		})
	}
	if c, err := Parse(". {\n import x\n}\n"); err != nil || !slices.Equal(c.Unread, []string{"x"}) {
		t.Errorf("without the pods every import is unknown: %+v, %v", c, err)
	}
	if _, err := Parse(". { whoami }\n"); err == nil {
		t.Error("no error")
	}
}

func TestOnlyTheLameduckChanges(t *testing.T) {
	for name, c := range map[string]struct {
		text, was, becomes string
		d                  time.Duration
	}{
		"stated":                       {kubeadm, "lameduck 5s", "lameduck 30s", 30 * time.Second},
		"0 s is written":               {kubeadm, "lameduck 5s", "lameduck 0s", 0},
		"a comment stays":              {". {\n health {\n  lameduck 5s # why\n }\n}\n", "5s # why", "7s # why", 7 * time.Second},
		"a block without it":           {". {\n  health {\n  }\n}\n", "health {\n", "health {\n     lameduck 5s\n", 5 * time.Second},
		"no block":                     {". {\n  health :8080\n  ready\n}\n", "health :8080\n", "health :8080 {\n     lameduck 5s\n  }\n", 5 * time.Second},
		"no block, with a comment":     {". {\n  health # why\n}\n", "health # why\n", "health { # why\n     lameduck 5s\n  }\n", 5 * time.Second},
		"a comment above is let be":    {". {\n  # lameduck 5s\n  health {\n    lameduck 1s\n  }\n}\n", "lameduck 1s", "lameduck 5s", 5 * time.Second},
		"of two the first waits":       {"a {\n health {\n lameduck 5s\n }\n}\nb {\n health {\n lameduck 5s\n }\n}\n", "5s\n }\n}\nb {\n health {\n lameduck 5s", "9s\n }\n}\nb {\n health {\n lameduck 0s", 9 * time.Second},
		"of two in one block the last": {". {\n health {\n lameduck 1s\n }\n health {\n lameduck 2s\n }\n}\n", "2s", "9s", 9 * time.Second},
		"blocks that share a snippet":  {"(s) {\n health {\n  lameduck 5s\n }\n}\na {\n import s\n}\nb {\n import s\n}\n", "5s", "6s", 12 * time.Second},
		"a variable":                   {". {\n health {\n  lameduck {$X}\n }\n}\n", "{$X}", "9s", 9 * time.Second},
		"no health plugin":             {". {\n whoami\n}\ncluster.local {\n\tkubernetes\n}\n", "local {\n", "local {\n\thealth {\n\t    lameduck 9s\n\t}\n", 9 * time.Second},
		"no health and no braces":      {".\nready", ".\n", ".\nhealth {\n    lameduck 9s\n}\n", 9 * time.Second},
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
		"":                       "no server block",
		". {\n  health { }\n}\n": "line 2: the lameduck of this health plugin cannot be changed",
	} {
		if got, err := WithLameduck(text, 0); err == nil || got != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q became %q, %v, want %q", text, got, err, want)
		}
	}
	if got, err := pods(". {\n import /custom/*.override\n}\n").WithLameduck(0); err == nil || !strings.Contains(err.Error(), "in /custom/a.override") {
		t.Errorf("a file of others became %q, %v", got, err)
	}
	if got, err := (Source{Text: ". {\n kubernetes\n}\n"}).WithReady(); err != nil || got != ". {\n ready\n kubernetes\n}\n" {
		t.Errorf("with ready: %q, %v", got, err)
	}
}

// Corefiles are read as CoreDNS's own parser reads them.
func FuzzCorefile(f *testing.F) {
	for _, text := range []string{
		kubeadm, "a.,\nb. {\n ready\n}\n", ". { whoami }", ".\n{\n}\n", "(a) {\n x {\n import a\n }\n}\n. {\n import a\n}\n", "(a) {\n log\n}\n. {\n errors {\n import a\n }\n import a\n hosts a{\n}\n",
		"{$HOME} {\n bind \"a \\\" b\n c\"\n}\n", "a, {\n}", "import", "(a) {\n}\n(a) {\n}\n", "cluster.local\nhealth",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := false
		ours, err := parse(Source{
			Text:   text,
			Import: func(string) ([]File, error) { files = true; return nil, nil },
			Env:    func(name string) (string, bool) { return "", true },
		})
		if files || isUnknown(text) {
			return // CoreDNS's would read files and the environment of this machine
		}
		directives, _ := Directives("")
		theirs, theirErr := caddyfile.Parse("Corefile", strings.NewReader(text), directives)
		if (theirErr == nil) != (err == nil && ours.refused == "") {
			t.Fatalf("CoreDNS: %v; read here: %v %s", theirErr, err, ours.refused)
		}
		if theirErr != nil {
			return
		}
		if len(theirs) != len(ours.blocks) {
			t.Fatalf("%d server blocks, read here: %d", len(theirs), len(ours.blocks))
		}
		for i, b := range theirs {
			if !slices.Equal(b.Keys, ours.blocks[i].keys) || !reflect.DeepEqual(b.Tokens, ours.blocks[i].plugins) {
				t.Fatalf("block %d is %v, read here as %v", i+1, b, ours.blocks[i])
			}
		}
	})
}

// The lameduck that is set is read back, whatever the rest of the file is.
func FuzzWithLameduck(f *testing.F) {
	f.Add(kubeadm)
	f.Add("(a) {\n health\n}\n. {\n import a\n}\nb {\n import a\n}")
	f.Add("cluster.local\nhealth")
	f.Add(". {\n ready\n}")
	f.Add("x")
	f.Add("a,\nimport b\n")
	f.Fuzz(func(t *testing.T, text string) {
		before := Read(Source{Text: text})
		set, err := WithLameduck(text, 6*time.Second)
		if err != nil {
			return
		}
		after := Read(Source{Text: set})
		if after.Lameduck != 6*time.Second || len(after.Health) != max(1, len(before.Health)) || (after.Refused == "") != (before.Refused == "") || !slices.Equal(after.Ready, before.Ready) {
			t.Errorf("%q became %q, which reads as %+v", text, set, after)
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
