package story

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Countdown is when a time to act begins to count.
type Countdown struct {
	From     time.Duration
	Evidence []history.Event // what it was read from
	received bool            // it counts from when the message could be received
}

// Countdown counts from the put of a notice or message, or from the end of a fault or
// disturbance if one is named and ended later. If that is unknown, why is the reason.
func (st *Story) Countdown(put history.Event, name string) (c Countdown, why string) {
	c = Countdown{From: put.At, Evidence: []history.Event{put}}
	if name == "" {
		return c, ""
	}
	ended, why := st.EndOf(name)
	if why == "" && ended.At > put.At {
		c.From, c.Evidence = ended.At, append(c.Evidence, ended)
	}
	return c, why
}

// Extended is the countdown for something that came later than within allows: it begins
// when the handler could have the message, if that was later.
func (st *Story) Extended(c Countdown, put history.Event, at, within time.Duration) Countdown {
	if at <= c.From+within {
		return c
	}
	if since, received := st.Receivable(put); since > c.From {
		c.From, c.Evidence, c.received = since, append(slices.Clone(c.Evidence), received), true
	}
	return c
}

// After describes how long after the beginning of the countdown something came.
func (c Countdown) After(at time.Duration) string {
	text := history.Seconds(at - c.From)
	if c.received {
		text += ", counted from when the message could be received at +" + history.Seconds(c.From)
	}
	return text
}
