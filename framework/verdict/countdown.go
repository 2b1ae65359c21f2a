package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// countdown is when a time to act begins to count.
type countdown struct {
	from     time.Duration
	evidence []history.Event // what it was read from
	received bool            // it counts from when the message could be received
}

// countdown counts from the put of a notice or message, or from the end of a fault or
// disturbance if one is named and ended later. If that is unknown, why is the reason.
func (j judge) countdown(put history.Event, name string) (c countdown, why string) {
	c = countdown{from: put.At, evidence: []history.Event{put}}
	if name == "" {
		return c, ""
	}
	ended, why := j.EndOf(name)
	if why == "" && ended.At > put.At {
		c.from, c.evidence = ended.At, append(c.evidence, ended)
	}
	return c, why
}

// extended is the countdown for something that came later than within allows: it begins
// when the handler could have the message, if that was later.
func (j judge) extended(c countdown, put history.Event, at, within time.Duration) countdown {
	if at <= c.from+within {
		return c
	}
	if since, received := j.Receivable(put); since > c.from {
		c.from, c.evidence, c.received = since, append(slices.Clone(c.evidence), received), true
	}
	return c
}

// after describes how long after the beginning of the countdown something came.
func (c countdown) after(at time.Duration) string {
	text := history.Seconds(at - c.from)
	if c.received {
		text += ", counted from when the message could be received at +" + history.Seconds(c.from)
	}
	return text
}

// andAfter is how a verdict's Want names the fault or disturbance whose end a countdown
// begins with.
func andAfter(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" and of the end of %q", name)
}
