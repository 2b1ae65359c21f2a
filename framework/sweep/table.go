package sweep

import (
	"math"
	"slices"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// State is what is known of a cell.
type State string

// The states of a cell. Only one of which everything is known can be safe.
const (
	Safe       State = "safe"       // all repeats were judged, none lost a query, and the bound is low enough
	Loses      State = "loses"      // a query was lost
	Unknown    State = "unknown"    // not drilled often enough, or not judged
	Impossible State = "impossible" // the base cannot be played with it
)

// Table is what is known of a matrix.
type Table struct {
	Sweep scenarios.Sweep
	Cells []Result // the smallest first
}

// Result is what is known of a cell.
type Result struct {
	scenarios.Cell
	State State
	Why   string // of one that is unknown or impossible
	// Judged is how many drills show something, Lossy how many of them lost a query.
	Judged, Lossy int
	// DrillBound is the upper confidence bound of the share of drills that lose any.
	DrillBound float64
	// Counted is of the queries that the matrix counts, of both modes or of one.
	Counted, Fresh, Fixed Figures
}

// Figures sum up a stream of queries over a cell's drills.
type Figures struct {
	Asked int `json:"asked"`
	Lost  int `json:"lost"`
	// Conntrack is how many more were lost that the matrix does not count: by
	// connection tracking itself.
	Conntrack  int     `json:"lostConntrack"`
	LostMedian float64 `json:"lostMedian"` // queries a drill
	LostWorst  float64 `json:"lostWorst"`
	// WindowMedian and WindowMax are of the longest window of a drill, in milliseconds.
	WindowMedian float64 `json:"windowMedianMs"`
	WindowMax    float64 `json:"windowWorstMs"`
	// Bound is the upper confidence bound of the loss rate, see bound.
	Bound float64 `json:"lossRateBound"`
}

func newTable(s scenarios.Sweep, results *store) Table {
	t := Table{Sweep: s}
	for _, c := range s.Cells() {
		t.Cells = append(t.Cells, newResult(s, c, results))
	}
	return t
}

func newResult(s scenarios.Sweep, c scenarios.Cell, results *store) Result {
	r := Result{Cell: c, State: Impossible, Why: c.Impossible}
	var fresh, fixed, counted []count
	why := ""
	for n := 1; n <= s.Repeats; n++ {
		p, ok := results.known(c.Name(), n)
		if !ok {
			if was, played := results.results[key{c.Name(), n}]; played {
				why = was.Why
			}
			continue
		}
		r.Judged++
		if p.Outcome == verdict.Fail {
			r.Lossy++
		}
		fresh, fixed, counted = append(fresh, p.Fresh), append(fixed, p.Fixed), append(counted, p.counted(s.Mode))
	}
	r.DrillBound = bound(r.Lossy, r.Judged, s.Confidence)
	r.Fresh, r.Fixed, r.Counted = figures(fresh, s.Confidence), figures(fixed, s.Confidence), figures(counted, s.Confidence)
	switch {
	case c.Impossible != "":
	case r.Lossy > 0:
		r.State = Loses
	case r.Judged < s.Repeats && why != "":
		r.State, r.Why = Unknown, why
	case r.Judged < s.Repeats:
		r.State, r.Why = Unknown, "not drilled"
	case r.Counted.Lost > 0 || r.Counted.Asked == 0:
		r.State, r.Why = Unknown, "the drills contradict their counts"
	case r.Counted.Bound > s.LossRate:
		r.State, r.Why = Unknown, "nothing lost, but of too few queries for the required loss rate: raise repeats"
	default:
		r.State = Safe
	}
	return r
}

// counted are the queries that a mode counts: fresh, fixed, or all.
func (p measurement) counted(mode string) count {
	switch mode {
	case "fresh":
		return p.Fresh
	case "fixed":
		return p.Fixed
	}
	return count{p.Fresh.Asked + p.Fixed.Asked, p.Fresh.Lost + p.Fixed.Lost, max(p.Fresh.Window, p.Fixed.Window), p.Fresh.Conntrack + p.Fixed.Conntrack}
}

func figures(counts []count, confidence float64) Figures {
	var f Figures
	var lost, windows []float64
	for _, c := range counts {
		f.Asked, f.Lost, f.Conntrack = f.Asked+c.Asked, f.Lost+c.Lost, f.Conntrack+c.Conntrack
		lost, windows = append(lost, float64(c.Lost)), append(windows, c.Window)
	}
	f.LostMedian, f.LostWorst = medianAndMax(lost)
	f.WindowMedian, f.WindowMax = medianAndMax(windows)
	f.Bound = bound(f.Lost, f.Asked, confidence)
	return f
}

func medianAndMax(values []float64) (median, most float64) {
	n := len(values)
	if n == 0 {
		return 0, 0
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2, values[n-1]
}

// Smallest is the smallest safe cell; false if none is known.
func (t Table) Smallest() (Result, bool) {
	i := slices.IndexFunc(t.Cells, func(r Result) bool { return r.State == Safe })
	if i < 0 {
		return Result{}, false
	}
	return t.Cells[i], true
}

func (t Table) found() bool {
	_, ok := t.Smallest()
	return ok
}

// Count is how many cells are in a state.
func (t Table) Count(of State) int {
	n := 0
	for _, r := range t.Cells {
		if r.State == of {
			n++
		}
	}
	return n
}

// bound is the upper end of the one-sided confidence interval of a rate, after k
// of n draws hit: the p for which k or fewer hits have the probability 1 minus
// confidence (Clopper and Pearson, Biometrika 26, 1934, doi:10.1093/biomet/26.4.404).
// Where none hit it is 1 - (1-confidence)^(1/n), about 3/n at 0.95: the rule of
// three. Without draws it is 1: nothing is known.
//
// The draws are taken as independent. Drills are; queries are not, since lost ones
// come in windows: their bound is for how much such drills lose in total, that of drills
// for how likely one loses anything.
func bound(k, n int, confidence float64) float64 {
	switch {
	case n <= 0 || k >= n:
		return 1
	case k <= 0:
		return -math.Expm1(math.Log1p(-confidence) / float64(n))
	}
	low, high := float64(k)/float64(n), 1.0
	for range 100 { // halving: more steps than a float64 has bits
		middle := (low + high) / 2
		if atMost(k, n, middle) > 1-confidence {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// DrillsFor is how many drills, none of which loses a query, put the bound of the
// share of drills that lose any at or below a share. Share and confidence are above
// 0 and below 1.
func DrillsFor(share, confidence float64) int {
	return int(math.Ceil(math.Log1p(-confidence) / math.Log1p(-share)))
}

// atMost is the probability of k or fewer hits in n draws of rate p, where p is
// more than k/n: the terms then fall from k downwards.
func atMost(k, n int, p float64) float64 {
	lg := func(v int) float64 { l, _ := math.Lgamma(float64(v) + 1); return l }
	term := math.Exp(lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	sum := term
	for i := k; i > 0 && term > sum*1e-17; i-- {
		term *= float64(i) / float64(n-i+1) * (1 - p) / p
		sum += term
	}
	return sum
}
