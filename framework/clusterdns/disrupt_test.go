package clusterdns

import (
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

const ownCorefile = ".:53 {\n    errors\n    health {\n        lameduck 5s\n    }\n    reload\n}\n"

func TestEditsOfTheCorefile(t *testing.T) {
	for name, c := range map[string]struct {
		edit  CorefileEdit
		valid bool
	}{
		"a slow reload":    {SlowReload(), true},
		"a broken one":     {BrokenCorefile(), false},
		"another lameduck": {EditedLameduck(30 * time.Second), true},
	} {
		changed, err := c.edit.change(ownCorefile)
		if err != nil || changed == ownCorefile {
			t.Errorf("%s: %q, %v", name, changed, err)
		}
		again, err := c.edit.change(changed)
		if err != nil || again != changed {
			t.Errorf("%s twice: %q, %v", name, again, err)
		}
		if c.valid {
			if _, err := coredns.Parse(changed); err != nil {
				t.Errorf("%s: the changed Corefile is invalid: %v", name, err)
			}
		}
		// What is left of an edit of lameduck, the settings of the next drill replace.
		back, err := coredns.WithLameduck(withoutEdits(changed), 5*time.Second)
		if err != nil || back != ownCorefile {
			t.Errorf("%s: taken back it is %q, %v", name, back, err)
		}
	}
}

func TestWhatEndsAnEdit(t *testing.T) {
	const (
		begins   = "2026-01-02T03:04:05.678Z [INFO] Reloading"
		complete = "[INFO] Reloading complete"
		failed   = "[ERROR] Restart failed: Corefile:14 - Error during parsing: Unknown directive 'no-such-plugin'"
	)
	for name, c := range map[string]struct {
		edit CorefileEdit
		line string
	}{
		"a slow reload":    {SlowReload(), begins},
		"a broken one":     {BrokenCorefile(), failed},
		"another lameduck": {EditedLameduck(time.Second), complete},
	} {
		for _, line := range []string{begins, complete, failed, "[INFO] plugin/reload: Running configuration SHA512 = 1", ""} {
			if got := c.edit.ended(line); got != (line == c.line) {
				t.Errorf("%s: %q: %t", name, line, got)
			}
		}
	}
}
