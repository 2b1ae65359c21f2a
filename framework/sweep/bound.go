package sweep

import "math"

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
