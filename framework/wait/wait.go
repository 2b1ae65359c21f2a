// Package wait waits for conditions, and reports what was missing if one does not come about in time.
package wait

import (
	"context"
	"fmt"
	"strings"
	"time"

	e2ewait "sigs.k8s.io/e2e-framework/klient/wait"
)

// poll is the time between two looks.
const poll = 100 * time.Millisecond

const unseen = "nothing seen"

// Until waits until why returns "". If the timeout passes first, the error contains what
// was waited for and what why returned last.
func Until(ctx context.Context, timeout time.Duration, what string, why func(context.Context) string) error {
	last := unseen
	err := e2ewait.For(func(ctx context.Context) (bool, error) {
		// A call that runs into the timeout, or would ("would exceed context deadline"), shows
		// nothing about what was waited for.
		if now := why(ctx); !strings.Contains(now, "context deadline") || last == unseen {
			last = now
		}
		return last == "", nil
	}, e2ewait.WithContext(ctx), e2ewait.WithTimeout(timeout), e2ewait.WithInterval(poll), e2ewait.WithImmediate())
	if err != nil {
		return fmt.Errorf("wait %s for %s: %s: %w", timeout, what, last, err)
	}
	return nil
}
