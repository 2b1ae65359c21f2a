//go:build !race

package reports

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	replayedProbers = 100
	replayedFor     = 5 * time.Minute
	// judgedWithin is the most memory that judging their record and writing its reports may take,
	// in bytes.
	judgedWithin = 1 << 30
	// replayed is the variable that names the folder for the process that judges.
	replayed = "SPOTDRILL_TEST_REPLAYED"
)

// The record of one prober, as many times as there may be probers. The race detector needs several
// times the memory, so make test runs this test without it.
func TestAHundredProbersAreJudgedWithinAGibibyte(t *testing.T) {
	if dir := os.Getenv(replayed); dir != "" {
		judgeReplayed(t, dir)
		return
	}
	dir := t.TempDir()
	queries := replay(t, dir)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), replayed+"="+dir)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	usage, ok := child.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Skip("this system does not report the memory of a process")
	}
	most := usage.Maxrss << 10 // Linux counts in KiB
	t.Logf("%d probers, %d queries: %d MiB, %s", replayedProbers, queries, most>>20, child.ProcessState.UserTime())
	if most > judgedWithin {
		t.Errorf("%d queries took %d MiB, want at most %d", queries, most>>20, judgedWithin>>20)
	}
}

// replay writes a history with the recorded queries of one prober, again and again, for each of
// the probers.
func replay(t *testing.T, dir string) (queries int) {
	t.Helper()
	s, was := fromCorpus(t, "observed-rollout")
	of := was.Queries[0].Node
	var recorded []history.Query
	for _, q := range was.Queries {
		if q.Node == of {
			recorded = append(recorded, q)
		}
	}
	slices.SortFunc(recorded, func(a, b history.Query) int { return int(a.Intended - b.Intended) })
	first, last := recorded[0].Intended, recorded[len(recorded)-1].Intended+10*time.Millisecond
	probe := *s.Probe
	each := probe
	probe.Probers = replayedProbers
	probe.Fresh, probe.Fixed, probe.FixedPorts, probe.Control = replayedProbers*each.Fresh/each.Probers, replayedProbers*each.Fixed/each.Probers, 2*replayedProbers, 2*replayedProbers
	made, err := verdict.Scenarios().With(s, probe, scenarios.Gates{})
	if err != nil {
		t.Fatal(err)
	}
	attempt, err := Folder{Path: dir}.Attempt(made, 1)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := history.Create(attempt, history.NewClock(), was.Meta)
	if err != nil {
		t.Fatal(err)
	}
	name := func(i int) string { return "node-" + string(rune('a'+i/10)) + string(rune('0'+i%10)) }
	begun := history.Steps.Begins(history.At(first + 3*time.Second))
	rec.Record(history.Arrange.Begins(history.At(1)))
	asked := make([]int, replayedProbers)
	for i := range replayedProbers {
		rec.Record(history.NewNodePresent(name(i), "", history.At(2)))
		rec.Record(history.NewProberStarted(name(i), history.At(first)))
	}
	for shift := time.Duration(0); shift < replayedFor; shift += last - first {
		for _, q := range recorded {
			for i := range replayedProbers {
				one := q
				one.Node, one.Intended, one.Sent, one.Done = name(i), q.Intended+shift, q.Sent+shift, q.Done+shift
				rec.Query(one)
				queries++
				if q.Target != history.Echo {
					asked[i]++
				}
			}
		}
	}
	end := first + replayedFor
	for _, e := range []history.Event{
		history.Steps.Begins(history.At(begun.At)),
		history.NewObservationBegun("", history.At(begun.At)),
		history.NewObservationEnded(history.At(end - 10*time.Second)),
		history.Settle.Begins(history.At(end - 10*time.Second)),
	} {
		rec.Record(e)
	}
	for i := range replayedProbers {
		rec.Record(history.NewProberEnded(name(i), history.At(end), history.With(history.Numbers{history.Asked: float64(asked[i]), history.UnsentQueries: 0, history.LateP99: 0.001})))
	}
	rec.Record(history.Restore.Begins(history.At(end + time.Minute)))
	rec.Record(history.NewRunEnded(history.At(end + time.Minute)))
	if err := rec.Close(false); err != nil { // its end is recorded above
		t.Fatal(err)
	}
	return queries
}

func judgeReplayed(t *testing.T, dir string) {
	t.Helper()
	LimitMemory() // as the program does
	report, err := Observed(Folder{Path: dir, Run: "replayed"}, lastAttempt(dir+"/observation"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Results[0].Verdicts {
		t.Logf("%s: %s: %s", v.Check, v.Outcome, v.Got)
	}
	if report.Summary.Failed > 0 || report.Results[0].DNS.Fresh.Asked == 0 {
		t.Errorf("%s, %d queries counted", report.Summary, report.Results[0].DNS.Fresh.Asked)
	}
}
