package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Deleted has the parameters of checkDeleted.
type Deleted struct {
	// Of is a notice or message step.
	Of string `yaml:"of"`
	// After is a fault or a disturbance. If it ends later than the message is sent, within
	// counts from its end.
	After  string          `yaml:"after,omitempty"`
	Within strict.Duration `yaml:"within"`
}

// Validate checks the parameters.
func (c Deleted) Validate(in *scenarios.Scope) {
	in.OneOf("of", c.Of, in.Sent)
	in.After(c.After)
	in.Positive("within", c.Within)
}

// DecidedBy is how long it needs the recording.
func (c Deleted) DecidedBy(t scenarios.Times) scenarios.Observation {
	return scenarios.Happens(t.SentOrEnded(c.Of, c.After) + c.Within.D())
}

// Needs is what it needs of a drill.
func (Deleted) Needs() scenarios.Needs {
	return scenarios.Needs{Messages: true}
}

var checkDeleted = by(Kind{
	ID: "deleted", Title: "deleted %s",
	Requires: "Every message of the notice or message step is deleted from the queue within a time. If a message came late to a handler that asked for it, the time counts from then.",
	Fix:      "delete a message once its drain is recorded on the node, and delete also what cannot be read or is about no node of this cluster",
	Look:     Look{Lane: LaneHandler, Text: "the lane Handler: received and never deleted, or never received? Then handler.log"},
}, deleted)

func deleted(j judge, v Verdict, c Deleted) Verdict {
	v = v.requires(fmt.Sprintf("every message of %q deleted from the queue within %s", c.Of, c.Within.D())+andAfter(c.After), c.Of)
	puts := j.All(func(e history.Event) bool {
		return (e.Kind == history.NoticePut || e.Kind == history.MessagePut) && e.Step() == c.Of
	})
	if len(puts) == 0 {
		return v.unknown(fmt.Sprintf("%q was never put", c.Of))
	}
	var slowest time.Duration
	messages, kept := 0, 0
	evidence := slices.Clone(puts)
	for i, put := range puts {
		if put.Notice != "" && slices.ContainsFunc(puts[:i], func(e history.Event) bool { return e.Notice == put.Notice }) {
			continue // one notice for several nodes
		}
		timer, why := j.Countdown(put, c.After)
		if why != "" {
			return v.unknown(why, put)
		}
		until := timer.From + c.Within.D()
		ids := j.MessagesOf(put)
		if len(ids) == 0 {
			return j.neverReceived(v, put, until)
		}
		for _, id := range ids {
			messages++
			received, deleted, ok := j.LastDeletion(id)
			if !ok && j.MayKeep(put) {
				kept++
				continue
			}
			switch {
			case !ok && j.Unrecorded(until) != "":
				return v.unknown("not deleted: "+j.Unrecorded(until), put, received)
			case !ok && deleted.Seq > 0:
				return v.fail(fmt.Sprintf("message %s received again after it was deleted, and not deleted since", id), put, deleted, received)
			case !ok:
				return v.fail(fmt.Sprintf("message %s received and not deleted", id), put, received)
			}
			evidence = append(evidence, received, deleted)
			timer := j.Extended(timer, put, deleted.At, c.Within.D())
			slowest = max(slowest, deleted.At-timer.From)
			if deleted.At > timer.From+c.Within.D() {
				v.Numbers = map[string]float64{"deleted_seconds": slowest.Seconds()}
				if why := loss.HandlerWaited(j.Story, timer.From, deleted.At, timer.From+c.Within.D()); why != "" {
					return v.noise(fmt.Sprintf("message %s deleted after %s: %s", id, history.Seconds(slowest), why), put, received, deleted)
				}
				return v.fail(fmt.Sprintf("message %s deleted after %s", id, history.Seconds(slowest)), put, received, deleted)
			}
		}
	}
	v.Numbers = map[string]float64{"deleted_seconds": slowest.Seconds(), "messages": float64(messages), "kept": float64(kept)}
	if kept > 0 {
		return v.pass(fmt.Sprintf("%d deleted, %d kept: %s", messages-kept, kept, j.KeepsMessages()), capped(evidence)...)
	}
	return v.pass(fmt.Sprintf("%d deleted, the last after %s", messages, history.Seconds(slowest)), capped(evidence)...)
}

// neverReceived distinguishes a handler that left the message in the queue from a
// message that never got there.
func (j judge) neverReceived(v Verdict, put history.Event, until time.Duration) Verdict {
	if why := j.Unrecorded(until); why != "" {
		return v.unknown("never received: "+why, put)
	}
	for _, e := range j.History.Events {
		if e.Kind == history.QueueDepth && e.Numbers[history.Visible]+e.Numbers[history.Invisible] > 0 {
			return v.fail("never received; messages were left in the queue at the end", put, e)
		}
	}
	return v.unknown("never received, and none was left in the queue: it may never have got there", put)
}
