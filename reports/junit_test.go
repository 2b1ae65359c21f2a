package reports

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"
)

// junitSchema is the part of junit-10.xsd of Jenkins' xUnit plugin that we use, and the
// properties of test cases that pytest and Maven have added: the attributes of an
// element, the required ones first, and the elements within it.
var junitSchema = map[string]struct {
	required, optional []string
	within             []string
}{
	"testsuites": {nil, []string{"name", "time", "tests", "failures", "errors"}, []string{"testsuite"}},
	"testsuite": {
		[]string{"name", "tests", "failures", "errors"},
		[]string{"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
		[]string{"testsuite", "properties", "testcase", "system-out", "system-err"},
	},
	"testcase":   {[]string{"name"}, []string{"time", "classname", "group"}, []string{"properties", "skipped", "error", "failure", "system-out", "system-err"}},
	"properties": {nil, nil, []string{"property"}},
	"property":   {[]string{"name", "value"}, nil, nil},
	"failure":    {nil, []string{"type", "message"}, nil},
	"error":      {nil, []string{"type", "message"}, nil},
	"skipped":    {nil, []string{"type", "message"}, nil},
}

func TestJUnitKeepsToTheSchema(t *testing.T) {
	dec := xml.NewDecoder(bytes.NewReader(sampleJUnit(t)))
	var open []string
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			name := e.Name.Local
			rule, known := junitSchema[name]
			if !known || len(open) > 0 && !slices.Contains(junitSchema[open[len(open)-1]].within, name) {
				t.Errorf("element %s within %v", name, open)
			}
			var has []string
			for _, a := range e.Attr {
				has = append(has, a.Name.Local)
				if !slices.Contains(slices.Concat(rule.required, rule.optional), a.Name.Local) {
					t.Errorf("element %s has attribute %s", name, a.Name.Local)
				}
			}
			for _, a := range rule.required {
				if !slices.Contains(has, a) {
					t.Errorf("element %s is without %s", name, a)
				}
			}
			open = append(open, name)
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
}

// A parser of another project reads what we mean.
func TestJUnitIsReadByOthers(t *testing.T) {
	suites, err := junit.Ingest(sampleJUnit(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		class  string
		status junit.Status
		text   []string
	}{
		"coredns-drained-lameduck-0s": {"builtin.DNS", junit.StatusPassed, nil},
		"spot-notice-drains-node": {"builtin.SPOT", junit.StatusFailed, []string{
			"marked victim: spotdrill-worker3 marked after 8.345s", "want: cordoned within 5s", "got:  spotdrill-worker3 marked", "#2 +12.345s node.cordoned", "reproduce: spotdrill run spot-notice-drains-node",
		}},
		"state-stopping-drains-node":            {"builtin.STATE-CHANGE", junit.StatusError, []string{"run: the cluster disappeared"}},
		"rebalance-recommendation-is-only-told": {"builtin.REBALANCE", junit.StatusSkipped, []string{"handler builtin does not claim rebalance-event"}},
	}
	read := 0
	for _, suite := range suites {
		for _, test := range suite.Tests {
			read++
			w, ok := want[test.Name]
			if !ok || test.Classname != w.class || test.Status != w.status {
				t.Errorf("%s is read as %s of %s, want %s of %s", test.Name, test.Status, test.Classname, w.status, w.class)
			}
			text := test.Message
			if test.Error != nil {
				text += test.Error.Error()
			}
			for _, part := range w.text {
				if !strings.Contains(text, part) {
					t.Errorf("%s: %q is not in what is read:\n%s", test.Name, part, text)
				}
			}
		}
	}
	if read != len(want) {
		t.Errorf("%d test cases read", read)
	}
}

func sampleJUnit(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := sampleReport().WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
