package reports

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// rival is a report of another handler on another machine: it drains where the
// sample fails, lacks one scenario, and has one of its own.
func rival() *Report {
	r := New(Folder{Run: "20260103-101112"}, Handler{Name: "karpenter", Version: "v1.14.1"}, "fast", map[string]string{"kubernetes": "v1.37.0", "kernel": "6.1"})
	for _, result := range []verdict.Result{
		{Scenario: "foreign-instance-is-deleted", Profile: "QUEUE-HYGIENE", Outcome: verdict.Pass, Verdicts: []verdict.Verdict{
			{Check: "deleted foreign", Outcome: verdict.Pass, Numbers: map[string]float64{"deleted_seconds": 0.21, "messages": 1}},
		}},
		{Scenario: "spot-notice-drains-node", Profile: "SPOT", Outcome: verdict.Pass, Verdicts: []verdict.Verdict{
			{Check: "marked victim", Outcome: verdict.Pass, Numbers: map[string]float64{"marked_seconds": 0.4}},
			{Check: "drained victim", Outcome: verdict.Pass, Numbers: map[string]float64{"drained_seconds": 3.25}},
			{Check: "drained other", Outcome: verdict.Pass, Numbers: map[string]float64{"drained_seconds": 4.5}},
			{Check: "dns lost (all)", Outcome: verdict.Pass, Numbers: map[string]float64{"window_fresh_max_ms": 0}},
		}},
		{Scenario: "coredns-drained-lameduck-0s", Profile: "DNS", Outcome: "nonsense", Verdicts: []verdict.Verdict{
			{Check: "drained victim", Outcome: verdict.Pass, Numbers: map[string]float64{"drained_seconds": 3}},
		}},
	} {
		r.Add(Entry{Result: result})
	}
	return r
}

func TestCompare(t *testing.T) {
	m := Compare([]*Report{sampleReport(), rival()})
	var text bytes.Buffer
	if err := m.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "compared.txt", text.Bytes())
	golden(t, "compared.json", append(asJSON, '\n'))
}

// A comparison needs only what is published: the YAML reports.
func TestCompareReadsWhatWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), YAMLFile)
	if err := writeFile(file, sampleReport().WriteYAML); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	if err := Compare([]*Report{sampleReport()}).WriteText(&want); err != nil {
		t.Fatal(err)
	}
	if err := Compare([]*Report{loaded}).WriteText(&got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("read from the file:\n%s\nwant:\n%s", got.String(), want.String())
	}
}

func TestLetter(t *testing.T) {
	for i, want := range map[int]string{0: "A", 25: "Z", 26: "AA", 27: "AB", 52: "BA"} {
		if got := letter(i); got != want {
			t.Errorf("column %d is called %s, want %s", i, got, want)
		}
	}
}
