package sweep

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// Names of what Write writes to a sweep's folder.
const (
	CSVFile  = "cells.csv"
	mapFile  = "heatmap.json"
	PageFile = "heatmap.html"
)

// Write writes the table to a folder: as CSV, as the data of a heat map, and as a page
// that shows it.
func (t Table) Write(dir string) error {
	var errs []error
	for name, write := range map[string]func(io.Writer) error{CSVFile: t.writeCSV, mapFile: t.writeMap, PageFile: t.writePage} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			errs = append(errs, fmt.Errorf("write the sweep's table: %w", err))
			continue
		}
		errs = append(errs, write(f), f.Close())
	}
	return errors.Join(errs...)
}

// WriteText writes a line for each cell, and what is safe; nothing for a table that
// could not be made.
func (t Table) WriteText(w io.Writer) error {
	s := t.Sweep
	if len(t.Cells) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "LAMEDUCK\tREADINESS\tGRACE\tPODS\tDRILLS\tLOST: MEDIAN, WORST\tLOST BY CONNTRACK\tWINDOW: MEDIAN, WORST\tLOSS RATE AT MOST\tDRILLS THAT LOSE AT MOST\tSTATE")
	for _, r := range t.Cells {
		settings := fmt.Sprintf("%s\t%s\t%s\t%d on %s", r.Lameduck.D(), readiness(r), r.GracePeriod.D(), r.Replicas, r.Placement)
		state := string(r.State)
		if r.Why != "" {
			state += ": " + r.Why
		}
		if r.Judged == 0 {
			fmt.Fprintf(table, "%s\t%d of %d\t-\t-\t-\t-\t-\t%s\n", settings, r.Judged, s.Repeats, state)
			continue
		}
		f, conntrack := r.Counted, "counted"
		if s.ExceptConntrack {
			conntrack = strconv.Itoa(f.Conntrack)
		}
		fmt.Fprintf(table, "%s\t%d of %d\t%g, %g of %d\t%s\t%s, %s\t%.3g %%\t%.0f %%\t%s\n", settings, r.Judged, s.Repeats,
			f.LostMedian, f.LostWorst, f.Asked/r.Judged, conntrack, milliseconds(f.WindowMedian), milliseconds(f.WindowMax), f.Bound*100, r.DrillBound*100, state)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the sweep's table: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s queries, confidence %g, a safe loss rate is at most %g %%: %d safe, %d lose, %d unknown, %d impossible\n%s\n",
		s.Mode, s.Confidence, s.LossRate*100, t.Count(Safe), t.Count(Loses), t.Count(Unknown), t.Count(Impossible), t.Verdict())
	return err
}

// Verdict describes in a sentence which setting is safe.
func (t Table) Verdict() string {
	r, ok := t.Smallest()
	switch {
	case ok:
		conntrack := ""
		if t.Sweep.ExceptConntrack {
			conntrack = fmt.Sprintf(", without %d that connection tracking itself lost", r.Counted.Conntrack)
		}
		return fmt.Sprintf("smallest safe setting: lameduck %s, readiness %s, grace period %s, %d on %s: nothing lost of %s (%s) in %s%s; so at confidence %g at most %.3g %% of queries are lost, and at most %.0f %% of drills lose any",
			r.Lameduck.D(), readiness(r), r.GracePeriod.D(), r.Replicas, r.Placement, history.Count(r.Counted.Asked, "query"), t.Sweep.Mode, history.Count(r.Judged, "drill"), conntrack, t.Sweep.Confidence, r.Counted.Bound*100, r.DrillBound*100)
	case t.Count(Unknown) > 0:
		return "no setting is known to be safe yet"
	}
	return "no setting of the matrix is safe"
}

func readiness(r Result) string {
	return fmt.Sprintf("%s x %d", r.Readiness.Period.D(), r.Readiness.FailureThreshold)
}

// milliseconds formats a time to the millisecond: "0.440 s".
func milliseconds(ms float64) string { return strconv.FormatFloat(ms/1000, 'f', 3, 64) + " s" }

// MarshalJSON writes what is known of a cell, with the units in the names. Bounds are
// shares, 0 to 1, and 1 without drills.
func (r Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Lameduck         float64           `json:"lameduckSeconds"`
		ReadinessPeriod  float64           `json:"readinessPeriodSeconds"`
		FailureThreshold int               `json:"failureThreshold"`
		GracePeriod      float64           `json:"gracePeriodSeconds"`
		Replicas         int               `json:"replicas"`
		Placement        coredns.Placement `json:"placement"`
		State            State             `json:"state"`
		Why              string            `json:"why,omitempty"`
		Drills           int               `json:"drills"`
		Lossy            int               `json:"drillsThatLost"`
		DrillBound       float64           `json:"drillBound"`
		Counted          Figures           `json:"counted"`
		Fresh            Figures           `json:"fresh"`
		Fixed            Figures           `json:"fixed"`
	}{
		r.Lameduck.D().Seconds(), r.Readiness.Period.D().Seconds(), r.Readiness.FailureThreshold, r.GracePeriod.D().Seconds(),
		r.Replicas, r.Placement, r.State, r.Why, r.Judged, r.Lossy, r.DrillBound, r.Counted, r.Fresh, r.Fixed,
	})
}

// writeCSV writes a line for each cell, with both modes apart.
func (t Table) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"lameduck_s", "readiness_period_s", "failure_threshold", "grace_period_s", "replicas", "placement", "state", "why", "drills", "drills_that_lost", "drill_bound"}
	for _, mode := range []string{"counted", "fresh", "fixed"} {
		for _, name := range []string{"asked", "lost", "lost_conntrack", "lost_median", "lost_worst", "window_median_ms", "window_worst_ms", "loss_rate_bound"} {
			head = append(head, mode+"_"+name)
		}
	}
	lines := [][]string{head}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for _, r := range t.Cells {
		line := []string{
			number(r.Lameduck.D().Seconds()), number(r.Readiness.Period.D().Seconds()), strconv.Itoa(r.Readiness.FailureThreshold), number(r.GracePeriod.D().Seconds()),
			strconv.Itoa(r.Replicas), string(r.Placement), string(r.State), foreign.Cell(r.Why), strconv.Itoa(r.Judged), strconv.Itoa(r.Lossy), number(r.DrillBound),
		}
		for _, f := range []Figures{r.Counted, r.Fresh, r.Fixed} {
			line = append(line, strconv.Itoa(f.Asked), strconv.Itoa(f.Lost), strconv.Itoa(f.Conntrack), number(f.LostMedian), number(f.LostWorst), number(f.WindowMedian), number(f.WindowMax), number(f.Bound))
		}
		lines = append(lines, line)
	}
	return wrap.Errorf(out.WriteAll(lines), "write CSV")
}

func (t Table) writeMap(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return wrap.Errorf(enc.Encode(t.heatMap()), "write heat map")
}
