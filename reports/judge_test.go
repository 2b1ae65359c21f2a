package reports

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// The saved run, and the scenario of its one drill.
var savedRun = filepath.Join("testdata", "run")

const savedScenario = "dns-lost-at-exit"

// record plays a small drill by hand into the folder of an attempt, as a run
// would: the fresh queries of 300 ms are lost when the pod exits.
func record(t *testing.T, dir string, attempt int, lostAtControl bool) {
	t.Helper()
	s, err := verdict.Scenarios().LoadFile(filepath.Join("testdata", savedScenario+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := history.Create(dir, history.NewClock(), history.Meta{
		Scenario: s.Name, Set: "fast", Attempt: attempt, Handler: history.Handler{Name: "builtin", Version: "0.1.0", Unschedulable: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ScenarioFile(dir, s.Name), s.Text, 0o644); err != nil {
		t.Fatal(err)
	}
	at := func(seconds float64, e history.Event) {
		e.At = sec(seconds)
		r.Record(e)
	}
	const dns, uid = "kube-system/coredns-a", "u-1"
	pod := func(e *history.Event) { e.Node, e.Owner, e.IP = "w-1", "ReplicaSet/coredns", "10.0.0.1" }
	until := sec(12)
	at(0.1, history.NewNodeRole("victim", "w-1", history.Instance("i-1")))
	at(0.2, history.NewNodePresent("w-1", "spot"))
	at(0.2, history.NewNodePresent("cp", "control-plane"))
	at(0.3, history.NewPodPresent(dns, uid, "", "Running", pod))
	at(0.5, history.Steps.Begins())
	at(2, history.NewNoticePut("reclaim", "", "w-1", history.Notice("n-1"), history.Instance("i-1"), history.Until(until)))
	at(2.5, history.NewNodeCordoned("w-1"))
	at(2.5, history.NewSQSDeleted("", "m-1", "n-1"))
	at(2.6, history.NewQueueDepth(history.With(history.Numbers{history.Visible: 0, history.Invisible: 0})))
	at(2.6, history.NewPodEvicted(dns, uid, "EvictionByEvictionAPI", pod))
	at(2.6, history.NewPodTerminating(dns, uid, pod))
	at(7.7, history.NewPodExited(dns, uid, pod))
	at(7.9, history.NewPodDeleted(dns, uid, pod))
	at(12, history.NewReclaimed("w-1"))
	at(12.1, history.Settle.Begins())
	asked := 0
	for _, stream := range []struct {
		target string
		mode   history.Mode
		rate   int
	}{{history.Service, history.Fresh, s.Probe.Fresh}, {history.Service, history.Fixed, s.Probe.Fixed}, {history.Control, history.Fresh, s.Probe.Control}} {
		for i := range 14 * stream.rate {
			asked++
			intended := sec(0.5) + time.Duration(i)*time.Second/time.Duration(stream.rate)
			q := history.Query{Target: stream.target, Mode: stream.mode, Port: 40000, Intended: intended, Sent: intended, Done: intended + sec(0.001), Outcome: history.Answered}
			exit := intended >= sec(7.7) && intended < sec(8)
			if exit && (stream.mode == history.Fresh && stream.target == history.Service || stream.target == history.Control && lostAtControl) {
				q.Port, q.Done, q.Outcome = 40001, intended+sec(2), history.Timeout
			}
			r.Query(q)
		}
	}
	at(14.2, history.NewProberEnded("", history.With(history.Numbers{history.Asked: float64(asked), history.UnsentQueries: 0, history.LateP99: 0.001, history.LateMax: 0.002})))
	err = r.Flows([]history.Flow{
		{Port: 40000, Backend: "10.0.0.2", From: sec(0.5)},
		{Port: 40001, Backend: "10.0.0.1", From: sec(0.5), To: sec(8), Removed: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	at(14.2, history.NewFlowsRecorded("", history.With(history.Numbers{history.FlowCount: 2, history.Overflows: 0, history.Resolution: 0.005, history.ClockBound: 0, history.RecorderCPU: 0.1})))
	at(14.3, history.Restore.Begins())
	at(20, history.NewRestored())
	if err := r.Close(true); err != nil {
		t.Fatal(err)
	}
}

// recordRun writes two attempts, the first with a noisy control.
func recordRun(t *testing.T, run string) {
	t.Helper()
	record(t, filepath.Join(run, savedScenario, "attempt-1"), 1, true)
	record(t, filepath.Join(run, savedScenario, "attempt-2"), 2, false)
}

func TestASavedRunIsJudgedAsItWas(t *testing.T) {
	if *update {
		recordRun(t, savedRun)
	}
	judged, err := Judge(t.Context(), savedRun)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	c := NewConsole(&b, len(judged.Results))
	for _, e := range judged.Results {
		c.Verdicts(e)
	}
	c.Windows(judged.Results)
	golden(t, "judged.txt", b.Bytes())
}

func TestJudgingFromDiskGivesTheVerdictsOfMemory(t *testing.T) {
	run := t.TempDir()
	recordRun(t, run)
	dir := filepath.Join(run, savedScenario, "attempt-2")
	h, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := verdict.Scenarios().LoadFile(filepath.Join("testdata", savedScenario+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	first := verdict.Judge(s, h)
	if first.Outcome != verdict.Fail {
		t.Errorf("the drill was meant to fail, it is %s", first.Outcome)
	}
	for _, name := range []string{run, filepath.Join(run, savedScenario), dir} {
		judged, err := Judge(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		entries := judged.Results
		if len(entries) != 1 || !reflect.DeepEqual(entries[0].Verdicts, first.Verdicts) || entries[0].Outcome != first.Outcome {
			t.Errorf("%s: judged as %+v", name, entries)
		}
	}
}

func TestTheLastAttemptOfAScenarioCounts(t *testing.T) {
	for dir, want := range map[string]int{
		savedRun:                               2,
		filepath.Join(savedRun, savedScenario): 2,
		filepath.Join(savedRun, savedScenario, "attempt-1"): 1,
	} {
		judged, err := Judge(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if judged.Results[0].Attempt != want {
			t.Errorf("%s: attempt %d, want %d", dir, judged.Results[0].Attempt, want)
		}
	}
}

func TestAttemptTenComesAfterAttemptTwo(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{1, 2, 10} {
		record(t, filepath.Join(dir, fmt.Sprintf("attempt-%d", n)), n, false)
	}
	judged, err := Judge(t.Context(), dir)
	if err != nil || judged.Results[0].Attempt != 10 {
		t.Errorf("judged %+v (%v)", judged, err)
	}
}

func TestAFolderWithoutAHistoryIsAnErrorThatHelps(t *testing.T) {
	empty, other := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(other, "notes", "attempt-x"), 0o755); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(empty, "gone")
	for dir, parts := range map[string][]string{
		empty: {"no history in " + empty, "looked for history.jsonl", "the folder holds nothing", "reports/out/latest"},
		other: {"the folder holds notes"},
		gone:  {"look for histories", "no such file"},
	} {
		_, err := Judge(t.Context(), dir)
		if err == nil {
			t.Errorf("%s: no error", dir)
			continue
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not show %q", err, part)
			}
		}
	}
}

func TestAHistoryWithoutItsScenarioIsAnError(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, 1, false)
	if err := os.Remove(ScenarioFile(dir, savedScenario)); err != nil {
		t.Fatal(err)
	}
	if _, err := Judge(t.Context(), dir); err == nil || !strings.Contains(err.Error(), savedScenario+".yaml") {
		t.Errorf("error %v", err)
	}
}

// A drill that was cut short can be judged, and its outcome is Unknown.
func TestATruncatedHistoryIsUnknown(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, 1, false)
	queries := filepath.Join(dir, history.QueriesFile)
	if err := os.Truncate(queries, 500); err != nil {
		t.Fatal(err)
	}
	judged, err := Judge(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if judged.Results[0].Outcome != verdict.Unknown {
		t.Errorf("judged %s", judged.Results[0].Outcome)
	}
}
