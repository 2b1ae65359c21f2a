package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/verdict"
)

// The percentiles of earlier nights that a figure is compared with: above the first
// it is a warning, above the second it has drifted.
const (
	warnPercentile = 95
	failPercentile = 99
)

// A figure must exceed a percentile by more than the normal difference from night to
// night on one machine: a tenth of it, and at least the time that a query or a poll
// may be late, see verdict.Tolerances.
const slackShare = 0.1

// DriftState is how a figure compares with those of earlier nights.
type DriftState string

// The states of a figure.
const (
	Steady  DriftState = "steady"
	Warned  DriftState = "warning" // beyond the 95th percentile
	Drifted DriftState = "drifted" // beyond the 99th
	TooFew  DriftState = "too few" // earlier nights to compare with
)

// Drift compares the headline figures of a report with those of earlier ones.
type Drift struct {
	Run     string        `json:"run"`
	AtLeast int           `json:"atLeast"` // the number of earlier figures that are needed
	Figures []DriftFigure `json:"figures"` // of the scenarios that passed and have a figure
}

// DriftFigure is one figure of a scenario.
type DriftFigure struct {
	Scenario string     `json:"scenario"`
	Figure   Figure     `json:"figure"`
	State    DriftState `json:"state"`
	Nights   int        `json:"nights"` // the number of comparable earlier figures
	// Warn and Fail are the percentiles in the figure's unit; 0 if there are too few
	// nights.
	Warn float64 `json:"p95"`
	Fail float64 `json:"p99"`
}

// FindDrift compares the figure of each scenario that passed with the figures of
// earlier passes: of the same handler and set, with the same text of the scenario, on
// as many cores and with the same kube-proxy mode. AtLeast is the number of such
// figures that are needed.
func FindDrift(now *Report, earlier []*Report, atLeast int) Drift {
	d := Drift{Run: now.Run, AtLeast: atLeast}
	for _, e := range now.Results {
		figure := headlineOf(e)
		if e.Outcome != verdict.Pass || figure == nil {
			continue
		}
		d.Figures = append(d.Figures, figure.against(e.Scenario, earlierFigures(now, e, figure.Name, earlier), atLeast))
	}
	return d
}

// earlierFigures are the earlier values that an entry's figure is comparable to.
func earlierFigures(now *Report, e Entry, name string, earlier []*Report) []float64 {
	var values []float64
	for _, r := range earlier {
		same := r.Run != now.Run && r.Set == now.Set && r.Handler.Name == now.Handler.Name &&
			r.Environment["cores"] == now.Environment["cores"] && r.Environment["kube-proxy"] == now.Environment["kube-proxy"]
		if !same {
			continue
		}
		for _, was := range r.Results {
			if was.Scenario != e.Scenario || was.Digest != e.Digest || was.Outcome != verdict.Pass {
				continue
			}
			if f := headlineOf(was); f != nil && f.Name == name {
				values = append(values, f.Value)
			}
		}
	}
	return values
}

func (f Figure) against(scenario string, earlier []float64, atLeast int) DriftFigure {
	d := DriftFigure{Scenario: scenario, Figure: f, State: TooFew, Nights: len(earlier)}
	if len(earlier) < max(1, atLeast) {
		return d
	}
	slices.Sort(earlier)
	d.Warn, d.Fail = percentile(earlier, warnPercentile), percentile(earlier, failPercentile)
	switch {
	case f.beyond(d.Fail):
		d.State = Drifted
	case f.beyond(d.Warn):
		d.State = Warned
	default:
		d.State = Steady
	}
	return d
}

// beyond reports whether the figure is larger than a bound by more than the slack.
func (f Figure) beyond(bound float64) bool {
	least := verdict.Tolerances()["late_query_ms"]
	if f.unit() == "_seconds" {
		least /= 1000
	}
	return f.Value > bound+max(least, slackShare*bound)
}

// percentile interpolates between the two nearest values of a sorted list.
func percentile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	low := int(math.Floor(at))
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// Count is how many figures are in a state.
func (d Drift) Count(state DriftState) int {
	n := 0
	for _, f := range d.Figures {
		if f.State == state {
			n++
		}
	}
	return n
}

// WriteText writes a table of the figures that drifted or are warnings, worst first,
// and a line with the counts.
func (d Drift) WriteText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "STATE\tSCENARIO\tFIGURE\tP95\tP99\tNIGHTS\n"
	order := []DriftState{Drifted, Warned}
	figures := slices.DeleteFunc(slices.Clone(d.Figures), func(f DriftFigure) bool { return !slices.Contains(order, f.State) })
	slices.SortStableFunc(figures, func(a, b DriftFigure) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
	for _, f := range figures {
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\t%d\n", head, f.State, printable(f.Scenario), f.Figure,
			f.Figure.with(f.Warn), f.Figure.with(f.Fail), f.Nights)
		head = ""
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write drift: %w", err)
	}
	_, err := fmt.Fprintf(w, "run %s: %s steady, %s, %d drifted, %d with fewer than %s\n",
		printable(d.Run), history.Count(d.Count(Steady), "figure"), history.Count(d.Count(Warned), "warning"), d.Count(Drifted), d.Count(TooFew), history.Count(d.AtLeast, "earlier night"))
	return err
}

// LoadAll loads reports. From a folder it loads every YAMLFile in it.
func LoadAll(ctx context.Context, places []string) ([]*Report, error) {
	var loaded []*Report
	var errs []error
	for _, place := range places {
		err := filepath.WalkDir(place, func(file string, entry fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || entry.IsDir() || file != place && entry.Name() != YAMLFile {
				return err
			}
			r, err := Load(file)
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			loaded = append(loaded, r)
			return nil
		})
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: name a report, or a folder of runs such as reports/out", err)
		}
		errs = append(errs, err)
	}
	return loaded, errors.Join(errs...)
}
