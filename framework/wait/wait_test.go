package wait

import (
	"context"
	"strings"
	"testing"
	"time"
)

// The error reports what was missing last, and not that a call ran into the timeout.
func TestTheErrorReportsWhatWasMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seen []string
		want string // in the error; empty for none
	}{
		"it is so at once":          {seen: []string{""}},
		"it is so later":            {seen: []string{"one is left", ""}},
		"it never is":               {seen: []string{"two are left", "one is left"}, want: "for the pods: one is left"},
		"a call that ran too long":  {seen: []string{"one is left", "context deadline exceeded"}, want: "for the pods: one is left"},
		"no call ended in the time": {seen: []string{"context deadline exceeded"}, want: "for the pods: context deadline exceeded"},
	} {
		looks := 0
		err := Until(t.Context(), 4*poll, "the pods", func(context.Context) string {
			looks++
			return c.seen[min(looks, len(c.seen))-1]
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestAnInterruptEndsTheWait(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	start := time.Now()
	if err := Until(ctx, time.Minute, "the pods", func(context.Context) string { return "one is left" }); err == nil || time.Since(start) > 30*time.Second {
		t.Errorf("error %v after %s", err, time.Since(start))
	}
}
