package sweep

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// heatMap is lameduck by readiness, a panel for all that else is the same.
type heatMap struct {
	Name       string   `json:"name"`
	Mode       string   `json:"mode"`
	Confidence float64  `json:"confidence"`
	LossRate   float64  `json:"lossRate"`
	Lameduck   []string `json:"lameduck"`  // of the columns, ascending
	Readiness  []string `json:"readiness"` // of the rows, the quickest first
	Panels     []panel  `json:"panels"`
	Verdict    string   `json:"verdict"`
}

type panel struct {
	GracePeriod string   `json:"gracePeriod"`
	Replicas    int      `json:"replicas"`
	Placement   string   `json:"placement"`
	Cells       [][]spot `json:"cells"` // rows of columns
}

// spot is a cell on the map.
type spot struct {
	State  State   `json:"state"`
	Why    string  `json:"why,omitempty"`
	Drills int     `json:"drills"`
	Lost   float64 `json:"lostWorst"`
	// Conntrack is how many more all drills lost that the matrix does not count.
	Conntrack int     `json:"lostConntrack"`
	Window    float64 `json:"windowWorstMs"`
	Bound     float64 `json:"lossRateBound"`
	// Heat is how dark the cell is: 0 to 1 with the logarithm of the worst window,
	// from a millisecond to ten seconds.
	Heat float64 `json:"heat"`
}

func (t Table) heatMap() heatMap {
	s := t.Sweep
	lameducks := slices.Compact(slices.Sorted(slices.Values(s.Lameduck)))
	probes := slices.Clone(s.Readiness)
	slices.SortStableFunc(probes, func(a, b coredns.Readiness) int {
		return cmp.Or(cmp.Compare(a.Unready(), b.Unready()), cmp.Compare(a.Period, b.Period))
	})
	probes = slices.Compact(probes)
	m := heatMap{Name: s.Name, Mode: s.Mode, Confidence: s.Confidence, LossRate: s.LossRate, Verdict: t.Verdict()}
	for _, l := range lameducks {
		m.Lameduck = append(m.Lameduck, l.D().String())
	}
	for _, r := range probes {
		m.Readiness = append(m.Readiness, fmt.Sprintf("%s x %d", r.Period.D(), r.FailureThreshold))
	}
	cells := map[string]Result{} // by Cell.Name
	for _, r := range t.Cells {
		cells[scenarios.Cell{Settings: r.Settings}.Name()] = r
	}
	for _, placement := range s.Placement {
		for _, replicas := range s.Replicas {
			for _, grace := range s.GracePeriod {
				p := panel{GracePeriod: grace.D().String(), Replicas: replicas, Placement: string(placement)}
				for _, probe := range probes {
					p.Cells = append(p.Cells, row(cells, lameducks, coredns.Settings{Placement: placement, Replicas: replicas, Readiness: probe, GracePeriod: grace}))
				}
				m.Panels = append(m.Panels, p)
			}
		}
	}
	return m
}

func row(cells map[string]Result, lameducks []strict.Duration, c coredns.Settings) []spot {
	var out []spot
	for _, l := range lameducks {
		c.Lameduck = l
		r := cells[scenarios.Cell{Settings: c}.Name()]
		s := spot{State: r.State, Why: r.Why, Drills: r.Judged, Lost: r.Counted.LostWorst, Conntrack: r.Counted.Conntrack, Window: r.Counted.WindowMax, Bound: r.Counted.Bound}
		if r.Counted.Lost > 0 {
			s.Heat = min(1, max(0.1, math.Log10(max(1, s.Window))/4))
		}
		out = append(out, s)
	}
	return out
}

//go:embed heatmap.html
var pageText string

var page = template.Must(template.New("heatmap").Funcs(template.FuncMap{
	"percent": func(v float64) string { return fmt.Sprintf("%.3g %%", v*100) },
	"seconds": func(ms float64) string {
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond).String()
	},
}).Parse(pageText))

func (t Table) writePage(w io.Writer) error {
	return wrap.Errorf(page.Execute(w, t.heatMap()), "write heat map")
}
