package schema_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// mostWords is how many words a scenario's author may meet. Before you raise it, look for a word that
// shows the same: a verb on another target, a fault of another target, a setting of a handler. The last
// were a call that is held, a watch that is stale and a node that is touched: only with these does something
// happen between what a handler reads and what it writes.
const mostWords = 131

func TestAnAuthorMeetsFewWords(t *testing.T) {
	var faults []history.FaultType
	for _, on := range history.FaultTargets() {
		faults = append(faults, history.FaultTypes(on)...)
	}
	slices.Sort(faults)
	total := 0
	for _, of := range []struct {
		what  string
		words int
	}{
		{"steps", reflect.TypeFor[scenarios.Step]().NumField()},
		{"checks", len(verdict.Scenarios().Kinds)},
		{"fault types", len(slices.Compact(faults))},
		{"verbs", len(scenarios.Verbs())},
		{"features", len(feature.Names())},
		{"profiles", len(scenarios.Profiles())},
	} {
		t.Logf("%d %s", of.words, of.what)
		total += of.words
	}
	if total > mostWords {
		t.Errorf("%d words, want at most %d", total, mostWords)
	}
}
