package reports

import "math/big"

// A change between two groups of plays is proven only by enough of them, as in OpenShift's Sippy, which
// uses Fisher's exact test at a confidence of 95 % and a minimum number of failures.
const (
	// Significance is the largest p-value of Fisher's exact test (two-sided) at which a change of a check
	// is proven. It holds for each check alone, and is not corrected for the number of checks.
	Significance = 0.05
	// LeastPlays is the number of plays, each a pass or a fail, that each side must have: with three on
	// either side not even three passes and three failures are significant. It also keeps one failure
	// after dozens of passes from being proof.
	LeastPlays = 4
	// mostNeeded bounds the search for the number of plays that would prove a change.
	mostNeeded = 200
)

// fisher is the two-sided p-value of Fisher's exact test: how likely shares that differ at least as much
// are if both sides pass equally often. The arithmetic is exact. It is 1 if a side has no plays.
func fisher(before, after Plays) float64 {
	n1, n2 := int64(before.judged()), int64(after.judged())
	passed := int64(before.Passed + after.Passed)
	least, most := max(0, passed-n2), min(n1, passed)
	ways := new(big.Int).Binomial(n1, least)
	ways.Mul(ways, new(big.Int).Binomial(n2, passed-least))
	tables := make([]*big.Int, 0, most-least+1) // the number of ways to each count of passes before
	for x := least; x <= most; x++ {
		tables = append(tables, new(big.Int).Set(ways))
		ways.Mul(ways, big.NewInt(n1-x)).Mul(ways, big.NewInt(passed-x))
		ways.Quo(ways, big.NewInt(x+1)).Quo(ways, big.NewInt(n2-passed+x+1))
	}
	seen, all, extreme := tables[int64(before.Passed)-least], new(big.Int), new(big.Int)
	for _, t := range tables {
		all.Add(all, t)
		if t.Cmp(seen) <= 0 {
			extreme.Add(extreme, t)
		}
	}
	p, _ := new(big.Rat).SetFrac(extreme, all).Float64()
	return p
}

// proven reports whether the sides differ significantly, and by enough plays.
func proven(before, after Plays) bool {
	return min(before.judged(), after.judged()) >= LeastPlays && fisher(before, after) <= Significance
}

// playsNeeded is the smallest number of plays of each side that proves the change if the shares of passes stay
// as they are; 0 if that is more than mostNeeded, or if the shares are equal.
func playsNeeded(before, after Plays) int {
	for n := LeastPlays; n <= mostNeeded; n++ {
		if proven(before.scaled(n), after.scaled(n)) {
			return n
		}
	}
	return 0
}

// judged is the number of plays that were a pass or a fail.
func (p Plays) judged() int { return p.Passed + p.Failed }

// scaled are n plays with the same share of passes, rounded.
func (p Plays) scaled(n int) Plays {
	passed := (2*p.Passed*n + p.judged()) / (2 * p.judged())
	return Plays{Passed: passed, Failed: n - passed}
}
