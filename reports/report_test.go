package reports

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

func TestYAML(t *testing.T) {
	var b bytes.Buffer
	if err := sampleReport().WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.yaml", b.Bytes())
	var read map[string]any
	if err := yaml.Unmarshal(b.Bytes(), &read); err != nil {
		t.Errorf("cannot be read back: %v", err)
	}
}

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := sampleReport().WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "junit.xml", b.Bytes())

	var read junitSuites
	if err := xml.Unmarshal(b.Bytes(), &read); err != nil {
		t.Fatalf("is not XML: %v", err)
	}
	if read.Tests != 4 || read.Failures != 1 || read.Errors != 1 {
		t.Errorf("counts %+v", read.junitCounts)
	}
	cases := map[string]junitCase{}
	for _, suite := range read.Suites {
		if suite.Tests != len(suite.Cases) {
			t.Errorf("suite %s has %d tests and shows %d", suite.Name, len(suite.Cases), suite.Tests)
		}
		for _, c := range suite.Cases {
			cases[string(c.Name)] = c
		}
	}
	fail := cases["spot-notice-drains-node"]
	if fail.Failure == nil || fail.Error != nil || fail.Class != "builtin.SPOT" {
		t.Fatalf("the failed scenario is %+v", fail)
	}
	for _, part := range []string{
		`want: cordoned within 5s of notice "reclaim"`, "got:  spotdrill-worker3 marked after 8.345s", "#2 +12.345s node.cordoned spotdrill-worker3",
		"reproduce: spotdrill run spot-notice-drains-node --handler builtin --set fast",
		"spotdrill judge reports/out/20260102-150405/spot-notice-drains-node/attempt-1", "a note with a \ufffd in it & a \"quote\"",
	} {
		if !strings.Contains(fail.Failure.Text, part) {
			t.Errorf("the failure does not hold %q:\n%s", part, fail.Failure.Text)
		}
	}
	if c := cases["state-stopping-drains-node"]; c.Error == nil || c.Failure != nil {
		t.Errorf("the unknown scenario is %+v", c)
	}
	if c := cases["rebalance-recommendation-is-only-told"]; c.Skipped == nil || c.Skipped.Message != "handler builtin does not claim rebalance-event" {
		t.Errorf("the skipped scenario is %+v", c)
	}
	pass := cases["coredns-drained-lameduck-0s"]
	if pass.Failure != nil || pass.Error != nil || pass.Skipped != nil {
		t.Errorf("the passed scenario is %+v", pass)
	}
	if want := (junitProperty{"dns window (fresh)/window_fresh_max_ms", "1300.25"}); pass.Properties == nil || !slices.Contains(pass.Properties, want) {
		t.Errorf("properties %+v, want %+v", pass.Properties, want)
	}
}

// An outcome that was never set must not look like a success anywhere.
func TestTheZeroOutcomeIsUnknown(t *testing.T) {
	r := sampleReport()
	before := r.Summary
	r.Add(Entry{Result: verdict.Result{Scenario: "blank", Profile: "SPOT"}})
	if r.Summary.Unknown != before.Unknown+1 || r.Summary.Passed != before.Passed {
		t.Errorf("counted as %+v", r.Summary)
	}
	var b bytes.Buffer
	if err := r.WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `<error message="no check was evaluated"`) {
		t.Errorf("JUnit shows no error:\n%s", b.String())
	}
}

func TestCounts(t *testing.T) {
	for want, c := range map[string]Counts{
		"13 passed, 0 failed":                       {Passed: 13, Total: 13},
		"1 passed, 2 failed":                        {Passed: 1, Failed: 2, Total: 3},
		"1 passed, 2 failed, 1 unknown":             {Passed: 1, Failed: 2, Unknown: 1, Total: 4},
		"0 passed, 0 failed, 2 skipped":             {Skipped: 2, Total: 2},
		"11 passed, 0 failed, 1 unknown, 1 skipped": {Passed: 11, Unknown: 1, Skipped: 1, Total: 13},
	} {
		if c.String() != want {
			t.Errorf("%q, want %q", c, want)
		}
	}
	var c Counts
	for _, o := range []verdict.Outcome{verdict.Pass, verdict.Fail, verdict.Unknown, verdict.Skipped, "", "fine"} {
		c.Add(o)
	}
	if want := (Counts{Passed: 1, Failed: 1, Unknown: 3, Skipped: 1, Total: 6}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}

func TestEventLine(t *testing.T) {
	for want, e := range map[string]history.Event{
		"+12.345s node.cordoned spotdrill-worker3":                      history.NewNodeCordoned("spotdrill-worker3", history.At(sec(12.345))),
		"+1.000s pod.evicted kube-system/coredns-x w3 Eviction":         history.NewPodEvicted("kube-system/coredns-x", "u", "Eviction", history.At(sec(1)), history.Node("w3")),
		"+2.000s sqs.call ReceiveMessage status 503":                    history.NewSQSCall("", "ReceiveMessage", "", history.At(sec(2)), history.Status(503)),
		"+3.000s queue.depth invisible=0 visible=2":                     history.NewQueueDepth(history.At(sec(3)), history.With(history.Numbers{history.Visible: 2, history.Invisible: 0})),
		"+4.000s notice.put reclaim w3 until +24.000s notice n-1":       history.NewNoticePut("reclaim", "", "w3", history.At(sec(4)), history.Notice("n-1"), history.Until(*ptr(sec(24)))),
		"+5.000s node.tainted node.kubernetes.io/x w3 NoSchedule":       history.NewNodeTainted("w3", "node.kubernetes.io/x", "NoSchedule", history.At(sec(5))),
		"+6.000s run.error lost the watch":                              history.NewRunError("lost the watch", history.At(sec(6))),
		"+7.000s endpoint.gone kube-system/coredns-x 10.0.0.1":          history.NewEndpointGone("", "kube-system/coredns-x", "10.0.0.1", history.At(sec(7))),
		"+8.000s sqs.delete message m-1 notice n-1":                     history.NewSQSDeleted("", "m-1", "n-1", history.At(sec(8))),
		"+9.000s event Node w3 SpotInterruption it goes (by karpenter)": history.NewClusterEvent("Node", "SpotInterruption", history.At(sec(9)), history.Node("w3"), history.Note("it goes"), history.Owner("karpenter")),
	} {
		if got := eventLine(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestADocumentedDeviationStandsNextToTheFailure(t *testing.T) {
	known := history.Handler{Name: "nth", Deviations: map[string]string{"garbage-is-deleted": "It is kept.\n"}}
	for _, c := range []struct {
		scenario string
		outcome  verdict.Outcome
		want     string
	}{
		{"garbage-is-deleted", verdict.Fail, "It is kept."},
		{"garbage-is-deleted", verdict.Pass, ""},
		{"garbage-is-deleted", verdict.Unknown, ""}, // which shows nothing about the handler
		{"another", verdict.Fail, ""},
	} {
		e := NewEntry(verdict.Result{Scenario: c.scenario, Outcome: c.outcome, Handler: known})
		if e.Deviation != c.want {
			t.Errorf("%s, %s: %q, want %q", c.scenario, c.outcome, e.Deviation, c.want)
		}
		var b bytes.Buffer
		writeFindings(&b, e, "  ")
		if written := strings.Contains(b.String(), "  documented deviation of nth: It is kept.\n"); written != (c.want != "") {
			t.Errorf("%s, %s: %q", c.scenario, c.outcome, b.String())
		}
	}
}

func TestReproduceNamesWhatWasPlayed(t *testing.T) {
	own := Handler{Name: "mine", Version: "v1", Description: "./mine/handler.yaml"}
	for name, c := range map[string]struct {
		handler Handler
		entry   Entry
		want    string
	}{
		"of the catalogue": {Handler{Name: "builtin"}, failed(), "spotdrill run spot-notice-drains-node --handler builtin --set fast"},
		"own handler":      {own, failed(), "spotdrill run spot-notice-drains-node --handler ./mine/handler.yaml --set fast"},
		"own image":        {Handler{Name: "nth", Image: "nth:dev"}, failed(), "spotdrill run spot-notice-drains-node --handler nth --set fast --handler-image nth:dev"},
		"own scenario": {
			own,
			Entry{Result: verdict.Result{Scenario: "mine"}, History: "mine/attempt-2"},
			"spotdrill run out/1/mine/attempt-2/mine.yaml --handler ./mine/handler.yaml --set fast",
		},
	} {
		if got := New(Folder{Path: "out/1"}, c.handler, "fast", nil).Reproduce(c.entry); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestJSONSaysWhatYAMLSays(t *testing.T) {
	var text, asJSON bytes.Buffer
	if err := errors.Join(sampleReport().WriteYAML(&text), json.NewEncoder(&asJSON).Encode(sampleReport())); err != nil {
		t.Fatal(err)
	}
	var fromYAML, fromJSON any
	if err := errors.Join(k8syaml.Unmarshal(text.Bytes(), &fromYAML), json.Unmarshal(asJSON.Bytes(), &fromJSON)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fromYAML, fromJSON) {
		t.Errorf("as JSON:\n%s", asJSON.String())
	}
}
