package storm

import (
	"context"

	"github.com/spotdrill/spotdrill/framework/verdict"
)

// first is how many nodes the first storm of a search has.
const first = 10

// search looks for the largest storm that passes: it doubles the nodes until one does not, or most of them pass, and halves the
// gap then, until it is a tenth of what passes. It ends with a storm that could not be judged: which half has the limit is unknown then.
func search(ctx context.Context, most int, play func(nodes int) (verdict.Outcome, error)) (passed, failed int, err error) {
	for nodes := min(first, most); ctx.Err() == nil; {
		outcome, err := play(nodes)
		switch {
		case err != nil:
			return passed, failed, err
		case outcome == verdict.Pass:
			passed = nodes
		case outcome == verdict.Fail:
			failed = nodes
		default:
			return passed, failed, nil
		}
		switch gap := failed - passed; {
		case passed == most, failed > 0 && gap <= max(1, passed/10):
			return passed, failed, nil
		case failed == 0:
			nodes = min(2*passed, most)
		default:
			nodes = passed + gap/2
		}
	}
	return passed, failed, nil
}
