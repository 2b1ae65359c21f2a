package scenarios_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
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

// What the error shows for each step is what the step means in a recording.
func TestTheNewSpellingOfAnActionMeansTheSame(t *testing.T) {
	const file = "testdata/invalid-old-actions.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := verdict.Scenarios().ParseRecorded(file, text)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{"  - notice: {name: reclaim, type: spot-interruption, nodes: [victim]}"}
	for _, message := range invalid["invalid-old-actions"] {
		_, now, _ := strings.Cut(message, "write: ")
		lines = append(lines, "  "+now)
	}
	before, rest, _ := strings.Cut(string(text), "steps:\n")
	_, after, _ := strings.Cut(rest, "settle:")
	written, err := verdict.Scenarios().Parse(file, []byte(before+"steps:\n"+strings.Join(lines, "\n")+"\nsettle:"+after))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(written.Steps, recorded.Steps) {
		t.Errorf("steps %v, want %v", written.Steps, recorded.Steps)
	}
}

func TestAFormerFeatureOfARecordingIsASetting(t *testing.T) {
	s, err := verdict.Scenarios().LoadRecorded("testdata/invalid-old-feature.yaml")
	if err != nil || s.Setting != "cordon-only" || s.Feature != "" {
		t.Errorf("setting %q, feature %q, error %v", s.Setting, s.Feature, err)
	}
}
