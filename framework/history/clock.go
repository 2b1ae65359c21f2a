package history

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is the one time base of a run: every record is a duration since Start.
// It is safe for concurrent use.
type Clock struct {
	start  time.Time
	anchor Anchor
}

// Anchor shows where a process's time base lies, in terms that another process
// can compare with its own. Monotonic is CLOCK_MONOTONIC in nanoseconds; it
// means the same in every process that reports the same BootID, because all of
// them read one kernel's clock (kind's nodes share their host's).
type Anchor struct {
	Wall      time.Time `json:"wall"`
	Monotonic int64     `json:"monotonic"`
	BootID    string    `json:"boot_id"`
}

// NewClock starts a time base now.
func NewClock() *Clock {
	anchor := NewAnchor()
	return &Clock{start: anchor.Wall, anchor: anchor}
}

// NewAnchor reads the wall clock, the monotonic clock and the kernel's boot id.
// If the boot id cannot be read it stays empty, which never matches another.
func NewAnchor() Anchor {
	now := time.Now()
	var ts unix.Timespec
	monotonic := int64(0)
	bootID := ""
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err == nil {
		monotonic = ts.Nano()
		if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
			bootID = strings.TrimSpace(string(b))
		}
	}
	return Anchor{Wall: now, Monotonic: monotonic, BootID: bootID}
}

// Anchor is where the base lies.
func (c *Clock) Anchor() Anchor { return c.anchor }

// Start is the base as wall clock time.
func (c *Clock) Start() time.Time { return c.start }

// Now is the time since the base.
func (c *Clock) Now() time.Duration { return time.Since(c.start) }

// Of converts a wall clock time, for instance one that an API object carries.
// API times are often whole seconds: state this if precision matters.
func (c *Clock) Of(t time.Time) time.Duration { return t.Sub(c.start) }

// Rebase returns what must be added to a duration since the other process's
// anchor to get a duration since this clock's base, and how far off that may
// be. On one kernel it is exact; between machines only wall clocks can be
// compared, and the bound is the error that those are commonly off by.
func (c *Clock) Rebase(other Anchor) (shift, bound time.Duration) {
	if other.BootID != "" && other.BootID == c.anchor.BootID {
		return time.Duration(other.Monotonic - c.anchor.Monotonic), 0
	}
	return other.Wall.Sub(c.start), wallClockBound
}

// wallClockBound is the disagreement to expect of two NTP-kept wall clocks in
// one data centre; RFC 5905 names tens of milliseconds over the internet.
const wallClockBound = 50 * time.Millisecond

// Seconds writes an offset the way reports show it: "12.345s".
func Seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
