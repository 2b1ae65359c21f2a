package coredns

import (
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

func TestThePortOfACorefile(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		first int
		at    int
		why   string // not at that port
	}{
		"the usual one":                      {".:53 {\n}\n", 53, 53, ""},
		"without a port":                     {". {\n}\n", 53, 53, ""},
		"another":                            {".:5353 {\n}\n", 5353, 5353, ""},
		"with its transport":                 {"dns://.:5353 {\n}\n", 5353, 5353, ""},
		"two zones, as OpenShift has them":   {".:5353 {\n}\nhostname.bind:5353 {\n}\n", 5353, 5353, ""},
		"zones of one block":                 {"a.test:5353, b.test:5353 {\n}\n", 5353, 5353, ""},
		"an encrypted one in addition":       {"tls://.:853 {\n}\n.:1053 {\n}\n", 1053, 1053, ""},
		"a zone that is unknown":             {"{$ZONE}:5353 {\n}\n", 5353, 5353, ""},
		"not that one":                       {".:53 {\n}\n", 53, 5353, "line 1: the server block .:53 is at port 53"},
		"not that one, by default":           {"# DNS\n. {\n}\n", 53, 5353, "line 2: the server block . is at port 53"},
		"only the first":                     {".:5353 {\n}\nexample.test:53 {\n}\n", 5353, 5353, "line 3: the server block example.test:53 is at port 53"},
		"one zone of a block":                {"a.test:5353, b.test {\n}\n", 5353, 5353, "the server block b.test is at port 53"},
		"a reverse zone":                     {".:5353 {\n}\n10.0.0.0/8 {\n}\n", 5353, 5353, "the server block 10.0.0.0/8 is at port 53"},
		"encrypted only":                     {"tls://.:5353 {\n}\n", 53, 5353, "no server block serves DNS without encryption"},
		"a port that is unknown":             {".:{$PORT} {\n}\n", 53, 53, "line 1: the port of the server block .:{$PORT} is unknown"},
		"another, where 53 is the setting's": {".:5353 {\n}\n", 5353, 53, "the server block .:5353 is at port 5353"},
	} {
		read := Read(Source{Text: c.text})
		err := read.ServesAt(c.at)
		if got := read.Port(); got != c.first || (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: port %d, want %d; at %d: %v, want %q", name, got, c.first, c.at, err, c.why)
		}
		if len(read.parser.blocks) == 0 || read.Refused != "" || c.why == "" || strings.Contains(c.why, "unknown") || strings.HasPrefix(c.why, "no ") {
			continue
		}
		moved, err := WithPort(c.text, c.at)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if after := Read(Source{Text: moved}); after.ServesAt(c.at) != nil || len(after.parser.blocks) != len(read.parser.blocks) || after.Refused != "" {
			t.Errorf("%s: moved to\n%s", name, moved)
		}
	}
	if text, err := WithPort("tls://.:853 {\n}\n", 5353); err == nil {
		t.Errorf("an encrypted server block was moved: %s", text)
	}
}

// The cluster's Corefile gets the port, and so does what is added to it.
func TestTheCorefileGetsThePortOfTheSettings(t *testing.T) {
	const given = ".:53 {\n    health {\n       lameduck 5s\n    }\n    ready\n}\n"
	for port, want := range map[int]string{0: ":53 {", 53: ":53 {", 5353: ":5353 {"} {
		s := Settings{Port: port, Lameduck: strict.Duration(5 * time.Second), Delay: strict.Duration(time.Millisecond)}
		text, err := s.Text(given)
		if err != nil || strings.Count(text, want) != 2 || Read(Source{Text: text}).ServesAt(s.PodPort()) != nil {
			t.Errorf("port %d: %v\n%s", port, err, text)
		}
		if back := WithDelay(text, 0); strings.Contains(back, "delayed") {
			t.Errorf("port %d: the delay is left:\n%s", port, back)
		}
	}
}
