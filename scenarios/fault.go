package scenarios

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Fault makes SQS go wrong between the queue and the handler. It
// begins with its step and ends when its time is over or when the last of its
// calls is done, whichever comes first; the end of the drill ends it too.
type Fault struct {
	// Name is how awaits and checks refer to it.
	Name string `yaml:"name"`
	// Type is what goes wrong; docs/faults.md says what a client sees of each.
	Type history.FaultType `yaml:"type"`
	// Actions are the calls that it hits, of FaultActions. Left out: all of them,
	// or for a lost answer the deletions. What is done to messages is done to
	// ReceiveMessage.
	Actions []string `yaml:"actions,omitempty"`
	// Count is how many calls it hits. Without it For is needed.
	Count int `yaml:"count,omitempty"`
	// For is how long it lasts. Without it Count is needed.
	For strict.Duration `yaml:"for,omitempty"`

	// By is how late a delay makes every answer.
	By strict.Duration `yaml:"by,omitempty"`
	// Code is what throttling says, ThrottlingException where it is left out.
	Code string `yaml:"code,omitempty"`
	// Status is that of an error.
	Status int `yaml:"status,omitempty"`
	// After is how much later a duplicate comes; left out, it comes in the same
	// batch, or in the next one where that is full.
	After strict.Duration `yaml:"after,omitempty"`
	// ToAnother gives duplicates to another replica than the one that had the message
	// first.
	ToAnother bool `yaml:"toAnother,omitempty"`
}

// FaultActions lists the calls that a fault can be confined to: those that a
// handler makes.
func FaultActions() []string {
	return []string{
		"ReceiveMessage", "DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch",
		"GetQueueUrl", "GetQueueAttributes",
	}
}

func (f Fault) validate(where string, p *problems) {
	p.oneOf(where+".type", string(f.Type), history.Words(history.FaultTypes()))
	for _, action := range f.Actions {
		p.oneOf(where+".actions", action, FaultActions())
	}
	if len(f.Actions) > 0 && (f.Type == history.Duplicate || f.Type == history.Reorder) {
		p.add(where+".actions", "does not go with type %s, which is done to ReceiveMessage", f.Type)
	}
	switch {
	case f.Count < 0:
		p.add(where+".count", "%d is less than 0", f.Count)
	case f.Count == 0 && f.For == 0:
		p.add(where, "wants count, for or both: a fault has an end")
	case f.For > 0 && f.After >= f.For:
		p.add(where+".after", "%s is not less than for (%s), so no duplicate would come", f.After.D(), f.For.D())
	}
	for _, only := range []struct {
		field  string
		of     history.FaultType
		given  bool
		needed bool
	}{
		{"by", history.Delay, f.By > 0, true},
		{"code", history.Throttle, f.Code != "", false},
		{"status", history.ServerError, f.Status != 0, true},
		{"after", history.Duplicate, f.After > 0, false},
		{"toAnother", history.Duplicate, f.ToAnother, false},
	} {
		switch {
		case only.given && f.Type != only.of:
			p.add(where+"."+only.field, "goes with type %s only", only.of)
		case only.needed && !only.given && f.Type == only.of:
			p.add(where+"."+only.field, "type %s needs it", only.of)
		}
	}
	if f.Code != "" {
		p.oneOf(where+".code", f.Code, []string{"ThrottlingException", "RequestThrottled"})
	}
	if f.Status != 0 && f.Status != 500 && f.Status != 503 {
		p.add(where+".status", "%d is not known; allowed: 500, 503", f.Status)
	}
}

// faultNames are those of the faults among the steps, in their order.
func faultNames(steps []Step) []string {
	var out []string
	for _, step := range steps {
		if step.Fault != nil {
			out = append(out, step.Fault.Name)
		}
	}
	return out
}

// fault is the fault of that name.
func (s Scenario) fault(name string) (Fault, bool) {
	i := slices.IndexFunc(s.Steps, func(step Step) bool { return step.Fault != nil && step.Fault.Name == name })
	if i < 0 {
		return Fault{}, false
	}
	return *s.Steps[i].Fault, true
}
