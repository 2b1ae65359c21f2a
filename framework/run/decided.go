package run

import (
	"context"
	"time"

	"github.com/spotdrill/spotdrill/scenarios"
)

// decidedPoll is the pause between two looks at the checks: each reads the history.
const decidedPoll = time.Second

// untilDecided continues the recording until every check can be decided: a check that
// stays unknown because the recording ended could never fail. What a check requires to
// happen ends its wait; what it forbids can happen until its time is over.
func (r *runner) untilDecided(ctx context.Context) error {
	for {
		now := r.rec.Clock().Now()
		until, open := r.Scenario.Undecided(r.Scenario.Times(r.rec.Events()), now)
		if until <= now {
			if len(open) == 0 || r.decided(open) {
				return nil
			}
			until = now + decidedPoll
		}
		if err := r.sleepUntil(ctx, until); err != nil {
			return err
		}
	}
}

func (r *runner) decided(open []scenarios.Check) bool {
	if r.Decided == nil {
		return false
	}
	r.rec.Flush()
	return r.Decided(open)
}
