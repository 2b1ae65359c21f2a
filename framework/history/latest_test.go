package history

import (
	"testing"
	"time"
)

func TestLatestIsTheNewestRunOfLosses(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	var l Latest
	for _, step := range []struct {
		q    Query
		want Latest
	}{
		{Query{Intended: ms(0), Outcome: Answered}, Latest{}},
		{Query{Intended: ms(10), Outcome: Timeout}, Latest{ms(10), ms(10), 1}},
		{Query{Intended: ms(30), Outcome: ServFail}, Latest{ms(10), ms(30), 2}},
		// An answer that overtakes a timeout, and a timeout that is reported late.
		{Query{Intended: ms(40), Outcome: Answered}, Latest{ms(10), ms(30), 2}},
		{Query{Intended: ms(20), Outcome: Timeout}, Latest{ms(10), ms(30), 3}},
		// The prober's own failure is no loss.
		{Query{Intended: ms(50), Outcome: Unsent}, Latest{ms(10), ms(30), 3}},
		{Query{Intended: ms(31) + Quiet, Outcome: Timeout}, Latest{ms(31) + Quiet, ms(31) + Quiet, 1}},
	} {
		l.Add(step.q)
		if l != step.want {
			t.Errorf("after %+v: %+v, want %+v", step.q, l, step.want)
		}
	}
}
