// Package logic is three-valued: yes, no, and what is not known.
package logic

// Truth is whether something is so. Maybe is neither: it is not known.
type Truth int

// The truths, of which min is the conjunction and max the disjunction.
const (
	No Truth = iota
	Maybe
	Yes
)

// Is converts.
func Is(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

// Not negates; Maybe stays.
func (t Truth) Not() Truth { return Yes - t }
