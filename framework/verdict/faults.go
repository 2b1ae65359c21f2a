package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// limit is what a time to act counts from.
type limit struct {
	from     time.Duration
	evidence []history.Event // what it was read from
	received bool            // it counts from when the message could be received
}

// limitOf counts from the put of a notice or message, or from the end of a fault or
// disturbance if one is named and ended later. If that is unknown, why is the reason.
func (j judge) limitOf(put history.Event, name string) (l limit, why string) {
	l = limit{from: put.At, evidence: []history.Event{put}}
	if name == "" {
		return l, ""
	}
	ended, why := j.endOf(name)
	if why != "" {
		return l, why
	}
	if ended.At > put.At {
		l.from = ended.At
		l.evidence = append(l.evidence, ended)
	}
	return l, ""
}

// endOf is when a fault or a disturbance of the handler ended that took effect. If that is
// unknown, why is the reason.
func (j judge) endOf(name string) (ended history.Event, why string) {
	of := func(kind history.Kind) (history.Event, bool) {
		return j.First(func(e history.Event) bool { return e.Kind == kind && e.Step() == name })
	}
	if disturbed, ok := of(history.HandlerDisturbed); ok {
		ended, ok := of(history.HandlerLeftAlone)
		switch {
		case !ok:
			return ended, fmt.Sprintf("disturbance %q did not end", name)
		case disturbed.Disturbance() == history.CutOffHandler && ended.Numbers[history.Dropped] == 0:
			return ended, fmt.Sprintf("disturbance %q dropped no packet", name)
		}
		return ended, ""
	}
	if _, ok := of(history.FaultHit); !ok {
		return ended, fmt.Sprintf("fault %q hit no call", name)
	}
	ended, ok := of(history.FaultEnded)
	if !ok {
		return ended, fmt.Sprintf("fault %q did not end", name)
	}
	return ended, ""
}

// extended is the limit for something that came later than within allows: it counts from
// when the handler could have the message, if that was later.
func (j judge) extended(l limit, put history.Event, at, within time.Duration) limit {
	if at <= l.from+within {
		return l
	}
	if since, received := j.Receivable(put); since > l.from {
		l.from, l.evidence = since, append(slices.Clone(l.evidence), received)
		l.received = true
	}
	return l
}

// after describes how long after the start of the limit something came.
func (l limit) after(at time.Duration) string {
	text := history.Seconds(at - l.from)
	if l.received {
		text += ", counted from when the message could be received at +" + history.Seconds(l.from)
	}
	return text
}

// wantAfter is how a verdict's Want names the fault or disturbance whose end a limit
// counts from.
func wantAfter(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" and of the end of %q", name)
}
