package history

import (
	"testing"
	"time"
)

func TestRebase(t *testing.T) {
	base := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	c := &Clock{start: base, anchor: Anchor{Wall: base, Monotonic: int64(100 * time.Second), BootID: "a"}}
	for name, x := range map[string]struct {
		other        Anchor
		shift, bound time.Duration
	}{
		"started later on this kernel": {Anchor{Wall: base, Monotonic: int64(103 * time.Second), BootID: "a"}, 3 * time.Second, 0},
		// The wall clock stepped; the kernel's monotonic one does not.
		"this kernel, wall clock set back": {Anchor{Wall: base.Add(-time.Hour), Monotonic: int64(103 * time.Second), BootID: "a"}, 3 * time.Second, 0},
		"started earlier on this kernel":   {Anchor{Wall: base, Monotonic: int64(99 * time.Second), BootID: "a"}, -time.Second, 0},
		"another machine":                  {Anchor{Wall: base.Add(2 * time.Second), Monotonic: int64(100 * time.Second), BootID: "b"}, 2 * time.Second, wallClockBound},
		"a machine without a boot id":      {Anchor{Wall: base.Add(2 * time.Second), Monotonic: int64(100 * time.Second)}, 2 * time.Second, wallClockBound},
	} {
		t.Run(name, func(t *testing.T) {
			if shift, bound := c.Rebase(x.other); shift != x.shift || bound != x.bound {
				t.Errorf("shift %s within %s, want %s within %s", shift, bound, x.shift, x.bound)
			}
		})
	}
}

func TestTwoUnknownBootsAreNotOne(t *testing.T) {
	c := &Clock{start: time.Unix(0, 0), anchor: Anchor{Wall: time.Unix(0, 0)}}
	if _, bound := c.Rebase(Anchor{Wall: time.Unix(5, 0)}); bound != wallClockBound {
		t.Errorf("rebased exactly, bound %s", bound)
	}
}

func TestAClockRebasesAnAnchorOfItsOwnKernel(t *testing.T) {
	c := NewClock()
	if c.anchor.BootID == "" {
		t.Skip("this system has no boot id")
	}
	before := c.Now()
	shift, bound := c.Rebase(NewAnchor())
	if after := c.Now(); bound != 0 || shift < before-time.Millisecond || shift > after+time.Millisecond {
		t.Errorf("shift %s within %s, not between %s and %s", shift, bound, before, after)
	}
}

func TestClock(t *testing.T) {
	c := NewClock()
	if a, b := c.Now(), c.Now(); a < 0 || b < a {
		t.Errorf("went from %s to %s", a, b)
	}
	if got := c.Of(c.Start().Add(-3 * time.Second)); got != -3*time.Second {
		t.Errorf("3 s before the base is %s", got)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{12345 * time.Millisecond: "12.345s", 0: "0.000s", -1500 * time.Millisecond: "-1.500s"} {
		if got := Seconds(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
