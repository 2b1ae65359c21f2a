package trackrecord

import (
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// Fate is what became of a case.
type Fate string

// The fates. Only the first two are a reproduction.
const (
	Reproduced    Fate = "reproduced"            // the broken version failed, the fixed one passed
	ReproducedRed Fate = "reproduced, not fixed" // the broken version failed, and there is no fixed one
	NotReproduced Fate = "not reproduced"        // the broken version passed, or failed by another check; or the fixed one failed
	NotJudged     Fate = "not judged"            // a play could not be evaluated
)

// Color is what a play showed.
type Color string

// The colors of a play.
const (
	Red   Color = "red"   // the case's check failed, and none but its consequences with it
	Green Color = "green" // everything passed
	Other Color = "other" // another check failed
	Gray  Color = "gray"  // something is unknown
)

// Judge returns what a play shows of the case, and what was seen.
func (c Case) Judge(r verdict.Result) (Color, string) {
	var red, others, unknown []string
	for _, v := range r.Verdicts {
		said := v.Check + ": " + v.Got
		switch outcome := v.Outcome.Known(); {
		case outcome == verdict.Pass:
		case outcome == verdict.Fail && c.Red.is(v):
			red = append(red, said)
		case c.follows(v):
		case outcome == verdict.Fail:
			others = append(others, said)
		default:
			unknown = append(unknown, said)
		}
	}
	switch {
	case len(unknown) > 0:
		return Gray, strings.Join(unknown, "; ")
	case len(others) > 0:
		return Other, strings.Join(others, "; ")
	case len(red) > 0:
		return Red, strings.Join(red, "; ")
	case r.Outcome == verdict.Pass:
		return Green, "all checks passed"
	case r.Outcome == verdict.Fail:
		return Other, "only consequences of " + c.Red.String() + " failed"
	}
	return Gray, "the drill's outcome is " + string(r.Outcome)
}

// follows reports whether the verdict is one of the case's consequences.
func (c Case) follows(v verdict.Verdict) bool {
	for _, check := range c.Consequences {
		if check.is(v) {
			return true
		}
	}
	return false
}

// Play is what the plays of one version showed.
type Play struct {
	Version string  `yaml:"version"`
	Plays   int     `yaml:"plays"`
	Color   Color   `yaml:"color"`
	Saw     string  `yaml:"saw"` // of the play that decided
	Seconds float64 `yaml:"seconds"`
}

// Next reports whether another play of the version may be needed: of the broken one until
// it is red, of the fixed one while it is green.
func (c Case) Next(p Play, broken bool) bool {
	if p.Plays >= c.Plays {
		return false
	}
	if broken {
		return p.Color == Green || p.Color == Gray
	}
	return p.Color == Green
}

// Add counts another play. For the broken version, red outweighs everything, and what is
// unknown outweighs green.
func (p Play) Add(color Color, saw string) Play {
	p.Plays++
	if p.Color == Gray && color == Green {
		return p
	}
	p.Color, p.Saw = color, saw
	return p
}

// Fate returns what the plays of the broken and the fixed version show together; fixed is
// nil if it was not played.
func (c Case) Fate(broken Play, fixed *Play) (Fate, string) {
	of := func(p Play) string {
		return fmt.Sprintf("%s %s is %s after %d of %d plays (%s)", c.Program, p.Version, p.Color, p.Plays, c.Plays, p.Saw)
	}
	switch {
	case broken.Color == Gray:
		return NotJudged, of(broken)
	case broken.Color != Red:
		return NotReproduced, of(broken)
	case c.Fixed == "":
		return ReproducedRed, of(broken) + "; " + c.NotFixed
	case fixed == nil || fixed.Color == Gray:
		if fixed == nil {
			return NotJudged, of(broken) + "; the fixed version was not played"
		}
		return NotJudged, of(broken) + "; " + of(*fixed)
	case fixed.Color != Green || fixed.Plays < c.Plays:
		return NotReproduced, of(broken) + "; " + of(*fixed)
	}
	return Reproduced, of(broken) + "; " + of(*fixed)
}

// Is reports whether the fate is a reproduction.
func (f Fate) Is() bool { return f == Reproduced || f == ReproducedRed }
