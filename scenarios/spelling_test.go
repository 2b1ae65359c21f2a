package scenarios_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	. "github.com/spotdrill/spotdrill/scenarios"
)

func TestARecordingIsReadInItsOldSpelling(t *testing.T) {
	const file = "testdata/invalid-old-spelling.yaml"
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(old), "feature: spot", "feature: launch", 1) // for the fault on EC2
	got, err := verdict.Scenarios().ParseRecorded(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Text) != text {
		t.Error("its text, and so its digest, is another one")
	}
	steps, rest, _ := strings.Cut(text, "  - fault:")
	_, rest, _ = strings.Cut(rest, "settle:")
	now := strings.Join([]string{
		steps + "  - fault: {on: queue, name: outage, type: error, status: 500, for: 30s}",
		"  - fault: {on: ec2, name: none, type: no-capacity, capacity: spot, for: 120s}",
		"  - fault: {on: api, name: contended, type: conflict, verbs: [patch, update], count: 2}",
		"  - fault: {on: api, name: held, type: black-hole, silent: true, for: 5s}",
		"  - fault: {on: api, name: reset, type: black-hole, for: 5s}",
		"  - fault: {on: metadata, name: gone, node: victim, type: reset, for: 10s}",
		"settle:" + rest,
	}, "\n")
	want, err := verdict.Scenarios().Parse(file, []byte(now))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Steps, want.Steps) {
		t.Errorf("steps %v, want %v", got.Steps, want.Steps)
	}
}

// What the error shows for each step or check is what it means in a recording.
func TestTheNewSpellingMeansTheSame(t *testing.T) {
	for _, of := range []struct{ name, first string }{
		{"invalid-old-actions", "steps:\n  - notice: {name: reclaim, type: spot-interruption, nodes: [victim]}\n"},
		{"invalid-old-checks", "checks:\n"},
	} {
		file := "testdata/" + of.name + ".yaml"
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := verdict.Scenarios().ParseRecorded(file, text)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, message := range invalid[of.name] {
			_, now, _ := strings.Cut(message, "write: ")
			lines = append(lines, "  "+now+"\n")
		}
		before, rest, ok := strings.Cut(string(text), of.first)
		if !ok {
			t.Fatalf("%s has no %q", file, of.first)
		}
		_, after, _ := strings.Cut(rest, "settle:")
		written, err := verdict.Scenarios().Parse(file, []byte(before+of.first+strings.Join(lines, "")+"settle:"+after))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(written.Steps, recorded.Steps) || !reflect.DeepEqual(requirements(written), requirements(recorded)) {
			t.Errorf("%s: steps %v and checks %v, want %v and %v", file, written.Steps, written.Checks, recorded.Steps, recorded.Checks)
		}
	}
}

func requirements(s Scenario) (out []Requirement) {
	for _, c := range s.Checks {
		out = append(out, c.Requirement)
	}
	return out
}

func TestAFormerFeatureOfARecordingIsASetting(t *testing.T) {
	s, err := verdict.Scenarios().LoadRecorded("testdata/invalid-old-feature.yaml")
	if err != nil || s.Setting != "cordon-only" || s.Feature != "" {
		t.Errorf("setting %q, feature %q, error %v", s.Setting, s.Feature, err)
	}
}
