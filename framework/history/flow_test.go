package history

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// withFlows leaves a complete history with two flows.
func withFlows(t *testing.T) (dir string, flows []Flow) {
	t.Helper()
	dir = t.TempDir()
	r, err := Create(dir, NewClock(), Meta{})
	if err != nil {
		t.Fatal(err)
	}
	flows = []Flow{
		{Port: 40000, Backend: "10.244.2.5", From: ms(1), To: ms(900), Removed: true, Replied: true},
		{Port: 40001, Backend: "10.244.3.7", From: ms(2)},
	}
	if err := r.Flows(flows); err != nil {
		t.Fatal(err)
	}
	r.Record(NewFlowsRecorded("", With(Numbers{FlowCount: 2})))
	if err := r.Close(true); err != nil {
		t.Fatal(err)
	}
	return dir, flows
}

func TestFlowsComeBackAsTheyWere(t *testing.T) {
	dir, flows := withFlows(t)
	h, err := Load(dir)
	if err != nil || !h.Complete || !reflect.DeepEqual(h.Flows, flows) {
		t.Errorf("got  %+v, damage %q (%v)\nwant %+v", h.Flows, h.Damage, err, flows)
	}
}

// A drill without a prober has no flows, and neither has an older history
// they were recorded.
func TestAHistoryMayHaveNoFlows(t *testing.T) {
	dir, _, _ := recorded(t, true)
	if h, err := Load(dir); err != nil || !h.Complete || h.Flows != nil {
		t.Errorf("%+v, damage %q (%v)", h.Flows, h.Damage, err)
	}
}

// Whatever of the file is missing, the history is known to be damaged.
func TestFlowsThatAreMissingAreDamage(t *testing.T) {
	dir, _ := withFlows(t)
	file := filepath.Join(dir, FlowsFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := func() {
		t.Helper()
		if h, err := Load(dir); err != nil || h.Complete || !strings.HasPrefix(h.Damage, FlowsFile+": ") {
			t.Errorf("complete %t, damage %q (%v)", h.Complete, h.Damage, err)
		}
	}
	for n := range whole {
		if err := os.WriteFile(file, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		damaged()
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	damaged()
}

func TestFlowsNeedAFile(t *testing.T) {
	dir := t.TempDir()
	r, err := Create(dir, NewClock(), Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(false) }()
	if err := os.Mkdir(filepath.Join(dir, FlowsFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Flows(nil); err == nil || !strings.HasPrefix(err.Error(), "create the record of flows: ") {
		t.Errorf("error %v", err)
	}
}

// Before the cluster is restored the queries have no end yet; without the flows, lost
// queries could not be explained.
func TestFlowsAreReadBeforeTheQueriesEnd(t *testing.T) {
	dir := t.TempDir()
	r, err := Create(dir, NewClock(), Meta{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(false) })
	if err := r.Flows([]Flow{{Port: 40000, Backend: "10.244.2.5", From: ms(1), To: ms(900)}}); err != nil {
		t.Fatal(err)
	}
	r.Query(Query{Target: Service, Mode: Fresh, Outcome: Answered, Intended: ms(1), Sent: ms(1), Done: ms(2)})
	r.Flush()
	h, err := Load(dir)
	if err != nil || len(h.Flows) != 1 || len(h.Queries) != 1 || h.Complete || !strings.HasPrefix(h.Damage, QueriesFile+": ") {
		t.Errorf("%d flows, %d queries, complete %t, damage %q (%v)", len(h.Flows), len(h.Queries), h.Complete, h.Damage, err)
	}
}
