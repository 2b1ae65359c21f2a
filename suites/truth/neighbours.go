package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
)

// neighbours plays the same drills one after the other, and then in lanes, several times. No neighbour may change a verdict: what
// passes alone passes in a lane, or is unknown there and played again.
func neighbours(ctx context.Context, args []string) error {
	set, binary := flagSet("neighbours")
	handler := set.String("handler", "builtin", "the handler")
	out := set.String("out", "reports/out/neighbours", "folder for results")
	lanes := set.Int("lanes", 8, "how many drills play at the same time")
	drills := set.Int("drills", 60, "how many of the drills that can play in lanes")
	times := set.Int("times", 5, "how many times they are played in lanes")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *drills < 2 || *times < 1 {
		return fmt.Errorf("%d drills, %d times: want 2 and 1 at least", *drills, *times)
	}
	n := neighbouring{*binary, *handler, *out}
	names, err := n.inLanes(ctx, *lanes)
	if err != nil {
		return err
	}
	names = spread(names, *drills)
	alone, err := n.play(ctx, 1, names)
	if err != nil {
		return err
	}
	var together []outcomes
	for range *times {
		played, err := n.play(ctx, *lanes, names)
		if err != nil {
			return err
		}
		together = append(together, played)
	}
	return compared(os.Stdout, alone, together)
}

// neighbouring is how the drills are played.
type neighbouring struct{ binary, handler, out string }

// outcome is that of a drill as it was played first, in a lane or alone.
type outcome struct {
	verdict.Outcome
	got string // what did not pass
}

// outcomes are those of a run, by the drills' names.
type outcomes map[string]outcome

// command is one of the binary's with the handler.
func (n neighbouring) command(ctx context.Context, lanes int, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, n.binary, append([]string{"run", "--handler", n.handler, "--set", string(scenarios.Handler), "--lanes", strconv.Itoa(lanes), "--out", n.out}, args...)...)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 2*time.Minute
	cmd.Stderr = os.Stderr
	return cmd
}

// inLanes names the drills that can play in lanes.
func (n neighbouring) inLanes(ctx context.Context, lanes int) (names []string, err error) {
	text, err := n.command(ctx, lanes, "--dry-run", "--json").Output()
	if err != nil {
		return nil, fmt.Errorf("list the drills: %w", err)
	}
	var all []struct {
		Scenario string `json:"scenario"`
		InLane   bool   `json:"inLane"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("list the drills: %w", err)
	}
	for _, one := range all {
		if one.InLane {
			names = append(names, one.Scenario)
		}
	}
	if len(names) < 2 {
		return nil, fmt.Errorf("no drills with %s can play in lanes", n.handler)
	}
	return names, nil
}

// spread are so many of all, evenly spread.
func spread(all []string, most int) (some []string) {
	most = min(most, len(all))
	for i := range most {
		some = append(some, all[i*len(all)/most])
	}
	return some
}

// play plays drills, and returns how each came out the first time.
func (n neighbouring) play(ctx context.Context, lanes int, names []string) (outcomes, error) {
	start := time.Now()
	cmd := n.command(ctx, lanes, names...)
	cmd.Stdout = os.Stderr
	// What does not pass is in the report.
	if err := cmd.Run(); err != nil && (ctx.Err() != nil || cmd.ProcessState == nil) {
		return nil, cmp.Or(ctx.Err(), err)
	}
	report, err := reports.Load(filepath.Join(n.out, reports.Latest, reports.YAMLFile))
	if err != nil {
		return nil, err
	}
	if report.Started.Before(start.Add(-time.Second)) {
		return nil, errors.New("the run has written no report")
	}
	fmt.Printf("%s in %d lanes: %.0f s with the set-up\n", history.Count(len(names), "drill"), lanes, time.Since(start).Seconds())
	return outcomesOf(report), nil
}

// outcomesOf is how each drill of a run came out the first time.
func outcomesOf(report *reports.Report) outcomes {
	out := outcomes{}
	for _, e := range report.Results {
		one := outcome{Outcome: e.Outcome.Known()}
		if one.Outcome != verdict.Pass {
			one.got = e.First().Check + ": " + e.First().Got
		}
		if first, _, ok := strings.Cut(e.LaneAttempt, " "); ok {
			one = outcome{verdict.Outcome(first).Known(), e.LaneAttempt}
		}
		out[e.Scenario] = one
	}
	return out
}

// compared prints how the outcomes in lanes differ from those alone. It is an error if one that is known does.
func compared(w io.Writer, alone outcomes, together []outcomes) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	same, unknown, differ := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(alone)) {
		for i, played := range together {
			switch in := played[name]; {
			case alone[name].Outcome == in.Outcome && in.Outcome != verdict.Unknown:
				same++
				continue
			case in.Outcome == verdict.Unknown || in.Outcome == "" || alone[name].Outcome == verdict.Unknown:
				unknown++
			default:
				differ++
			}
			fmt.Fprintf(table, "%s\talone %s\tin lanes %s (run %d)\t%s\n", name, alone[name].Outcome, cmp.Or(played[name].Outcome, "not played"), i+1, cmp.Or(played[name].got, alone[name].got))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "of %d plays in lanes, %d came out as alone, %d are unknown in one of both, %d differ\n", same+unknown+differ, same, unknown, differ)
	switch {
	case differ > 0:
		return errors.New("a neighbour has changed a verdict")
	case same == 0:
		return errors.New("no play shows whether a neighbour changes a verdict")
	}
	return nil
}
