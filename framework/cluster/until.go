package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/e2e-framework/klient/wait"
)

const unseen = "nothing seen"

// Until waits until why returns "". If the timeout passes first, the error contains what
// was waited for and what why returned last.
func Until(ctx context.Context, timeout time.Duration, what string, why func(context.Context) string) error {
	last := unseen
	err := wait.For(func(ctx context.Context) (bool, error) {
		// A call that runs into the timeout, or would ("would exceed context deadline"), says
		// nothing of what was waited for.
		if now := why(ctx); !strings.Contains(now, "context deadline") || last == unseen {
			last = now
		}
		return last == "", nil
	}, wait.WithContext(ctx), wait.WithTimeout(timeout), wait.WithInterval(poll), wait.WithImmediate())
	if err != nil {
		return fmt.Errorf("wait %s for %s: %s: %w", timeout, what, last, err)
	}
	return nil
}
