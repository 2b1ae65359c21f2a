package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Fault makes SQS fail between the queue and the handler, or EC2 between its launches and the
// handler, or changes the queue itself. It begins with its step.
// It ends when its time is over or when it has affected its last call, whichever
// comes first, and at the latest when the drill ends.
type Fault struct {
	// Name identifies the fault in later steps and in checks.
	Name string `yaml:"name"`
	// Type is what goes wrong; docs/faults.md describes what a client sees.
	Type history.FaultType `yaml:"type"`
	// Actions are the calls that are affected. Left out, all of them are; with
	// lost-answer, only deletions. The types duplicate and reorder always affect
	// ReceiveMessage, failed-entry deletions.
	Actions []string `yaml:"actions,omitempty"`
	// Count is the number of calls that are affected. Required without for.
	Count int `yaml:"count,omitempty"`
	// For is how long the fault lasts. Required without count.
	For strict.Duration `yaml:"for,omitempty"`

	// By is the delay of each answer, with type delay.
	By strict.Duration `yaml:"by,omitempty"`
	// Code is the error code. With type throttle it is ThrottlingException (the default) or
	// RequestThrottled; with failed-entry InternalError (the default) or
	// ReceiptHandleIsInvalid, which stays so for that receipt handle; with no-capacity
	// InsufficientInstanceCapacity (the default), MaxSpotInstanceCountExceeded,
	// VcpuLimitExceeded or SpotMaxPriceTooLow; with client-error, which requires it, one of
	// the others.
	Code history.ErrorCode `yaml:"code,omitempty"`
	// Status is the HTTP status, with type error: 500 or 503.
	Status int `yaml:"status,omitempty"`
	// After is how much later a duplicate is delivered, with type duplicate. Left out,
	// it is in the same batch, or in the next one if that is full.
	After strict.Duration `yaml:"after,omitempty"`
	// ToAnother delivers duplicates to a different replica than the original, with type
	// duplicate.
	ToAnother bool `yaml:"toAnother,omitempty"`
	// Silent leaves the calls that type black-hole holds without an answer for ever, even
	// when it is over. New calls are answered then. Requires for.
	Silent bool `yaml:"silent,omitempty"`
	// Capacity is what EC2 lacks, spot or on-demand, with type no-capacity. Left out, it
	// launches neither.
	Capacity string `yaml:"capacity,omitempty"`
}

// DeliversToAnother reports whether a copy of a message is to be received by another replica.
func (s Scenario) DeliversToAnother() bool {
	return slices.ContainsFunc(s.Faults(), func(f Fault) bool { return f.ToAnother })
}

// FaultActions lists the calls that a fault can be limited to: those that a handler
// makes.
func FaultActions() []string {
	return []string{
		"ReceiveMessage", "DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch",
		"GetQueueUrl", "GetQueueAttributes",
	}
}

// FaultCodes lists the error codes that a fault can have.
func FaultCodes() []string {
	var out []string
	for _, t := range history.FaultTypes() {
		out = append(out, history.Words(t.ErrorCodes())...)
	}
	return out
}

// String is the fault in words.
func (f Fault) String() string {
	text := fmt.Sprintf("fault %s: %s", f.Name, f.Type)
	text += detail("by", f.By) + detail("after", f.After) + detail("for", f.For)
	if f.ToAnother {
		text += " to another replica"
	}
	if f.Status != 0 {
		text += fmt.Sprintf(" with status %d", f.Status)
	}
	if f.Code != "" {
		text += " with " + string(f.Code)
	}
	if f.Capacity != "" {
		text += " of " + f.Capacity
	}
	if f.Silent {
		text += ", silent afterwards too"
	}
	if f.Count > 0 {
		text += fmt.Sprintf(", %d calls", f.Count)
	}
	if len(f.Actions) > 0 {
		text += " of " + strings.Join(f.Actions, ", ")
	}
	return text
}

func (f Fault) validate(where string, in *scope, p *problems) {
	in.faults.define(where, f.Name, p)
	in.once(where, f.Name, in.disturbances, p)
	oneOf(p, where+".type", f.Type, history.FaultTypes())
	for _, action := range f.Actions {
		oneOf(p, where+".actions", action, FaultActions())
	}
	if len(f.Actions) > 0 && (f.Type == history.Duplicate || f.Type == history.Reorder) {
		p.add(where+".actions", "is not allowed with type %s, which always affects ReceiveMessage", f.Type)
	}
	if len(f.Actions) > 0 && f.Type == history.FailedEntry {
		p.add(where+".actions", "is not allowed with type %s, which always affects deletions", f.Type)
	}
	if len(f.Actions) > 0 && f.Type.OfLaunches() {
		p.add(where+".actions", "is not allowed with type %s, which always affects launches", f.Type)
	}
	if f.Type.OfTheQueueItself() {
		f.validateOfTheQueueItself(where, p)
	}
	if f.Capacity != "" {
		oneOf(p, where+".capacity", f.Capacity, capacities())
	}
	p.faultEnds(where, f.Count, f.For)
	if f.Count >= 0 && f.For > 0 && f.After >= f.For {
		p.add(where+".after", "%s is not less than for (%s): no duplicate would be delivered", f.After.D(), f.For.D())
	}
	for _, only := range []struct {
		field    string
		with     history.FaultType
		given    bool
		required bool
	}{
		{"by", history.Delay, f.By > 0, true},
		{"status", history.ServerError, f.Status != 0, true},
		{"after", history.Duplicate, f.After > 0, false},
		{"toAnother", history.Duplicate, f.ToAnother, false},
		{"silent", history.BlackHole, f.Silent, false},
		{"capacity", history.NoCapacity, f.Capacity != "", false},
	} {
		switch {
		case only.given && f.Type != only.with:
			p.add(where+"."+only.field, "is only allowed with type %s", only.with)
		case only.required && !only.given && f.Type == only.with:
			p.add(where+"."+only.field, "is required with type %s", only.with)
		}
	}
	switch codes := f.Type.ErrorCodes(); {
	case f.Code == "" && f.Type == history.ClientError:
		p.add(where+".code", "is required with type %s", f.Type)
	case f.Code != "" && len(codes) == 0:
		p.add(where+".code", "is not allowed with type %s", f.Type)
	case f.Code != "":
		oneOf(p, where+".code", f.Code, codes)
	}
	if f.Silent && f.For == 0 {
		p.add(where+".silent", "requires for: calls that stay unanswered do not end a fault")
	}
	p.serverError(where+".status", f.Status)
}

// validateOfTheQueueItself checks a fault that is done to the queue.
func (f Fault) validateOfTheQueueItself(where string, p *problems) {
	if len(f.Actions) > 0 {
		p.add(where+".actions", "is not allowed with type %s, which is done to the queue itself", f.Type)
	}
	if f.Count > 0 && f.Type == history.RecreatedQueue {
		p.add(where+".count", "is not allowed with type %s", f.Type)
	}
	switch lasts := f.For.D(); {
	case lasts == 0:
		p.add(where+".for", "is required with type %s", f.Type)
	case f.Type == history.RecreatedQueue && lasts < history.DeletedFor:
		p.add(where+".for", "%s is less than the %s for which SQS keeps the name of a deleted queue", lasts, history.DeletedFor)
	case f.Type == history.ShortRetention && lasts <= history.ShortestRetention:
		p.add(where+".for", "%s is not more than %s, for which SQS keeps messages at least: none would expire", lasts, history.ShortestRetention)
	}
}

// detail is a duration in words, and nothing if it is 0.
func detail(name string, d strict.Duration) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf(" %s %s", name, d.D())
}

// faultEnds checks what limits a fault.
func (p *problems) faultEnds(where string, count int, lasts strict.Duration) {
	p.atLeast0(where+".count", count)
	if count == 0 && lasts == 0 {
		p.add(where, "requires count, for or both: a fault must end")
	}
}

// serverError checks the HTTP status of a fault of type error.
func (p *problems) serverError(where string, status int) {
	if status != 0 && status != http.StatusInternalServerError && status != http.StatusServiceUnavailable {
		p.add(where, "%d is not known; allowed: 500, 503", status)
	}
}

func (f Fault) effect() effect { return effect{shared: true, begins: f.Name, lasts: f.For.D()} }
