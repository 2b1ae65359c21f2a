package scenarios

import (
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// MarkedFirst requires that the API server has confirmed a mark of the node before the
// handler requests the first of its pods to leave, after the notice.
type MarkedFirst struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

func (c MarkedFirst) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
}

func (c MarkedFirst) observed(t Times) observation {
	return happens(t.Deadlines[c.Notice]).on(c.Node, t)
}

// Retried requires that the handler repeats what the API server refused or did not answer,
// until it succeeds: after the last call that the fault hit, within a time, a write to the
// same object, or a read of the same resource. A pod that leaves by itself, and a node whose
// instance is gone, need no other call.
type Retried struct {
	// Fault is a fault on the API server of a type that refuses calls.
	Fault  string          `yaml:"fault"`
	Within strict.Duration `yaml:"within"`
}

func (c Retried) validate(where string, in *scope, p *problems) {
	in.apiFault(where+".fault", c.Fault, p, history.Conflict, history.Denied, history.Throttle, history.ServerError, history.Reset, history.BlackHole)
	p.positive(where+".within", c.Within)
}

func (c Retried) observed(t Times) observation { return happens(t.Ended[c.Fault] + c.Within.D()) }

// CallsBounded requires that no pod of the handler calls the API server more often than max
// times within per.
type CallsBounded struct {
	// Max is how many calls are allowed.
	Max int `yaml:"max"`
	// Per is the length of time that max is for, at least 2s.
	Per strict.Duration `yaml:"per"`
	// During limits the check to the time of a fault on the API server. Left out, the whole drill
	// counts but for its first 5s, in which the handler may still be starting.
	During string `yaml:"during,omitempty"`
}

// minPer is the shortest time that calls are counted for: the record counts calls that are
// the same by the second.
const minPer = 2 * time.Second

func (c CallsBounded) validate(where string, in *scope, p *problems) {
	if c.Max <= 0 {
		p.add(where+".max", "must be more than 0")
	}
	if c.Per.D() < minPer {
		p.add(where+".per", "%s is less than %s", c.Per.D(), minPer)
	}
	if c.During != "" {
		in.apiFault(where+".during", c.During, p, history.FaultTypes(history.OnAPI)...)
	}
}

func (c CallsBounded) observed(t Times) observation { return absent(t.reaction()) }

// RetryAfterKept requires that the handler does not repeat a throttled call before the time
// in the answer's Retry-After is over.
type RetryAfterKept struct {
	// Fault is a fault on the API server of type throttle with retryAfter.
	Fault string `yaml:"fault"`
}

func (c RetryAfterKept) validate(where string, in *scope, p *problems) {
	in.apiFault(where+".fault", c.Fault, p, history.Throttle)
	for _, f := range in.begun {
		if f.Name == c.Fault && f.On == history.OnAPI && f.Type == history.Throttle && f.RetryAfter == 0 {
			p.add(where+".fault", "%q has no retryAfter", c.Fault)
		}
	}
}

func (c RetryAfterKept) observed(t Times) observation { return absent(t.Ended[c.Fault]) }

// WatchedAgain requires that the handler watches again, within a time, what it watched when
// the API server ended its watches.
type WatchedAgain struct {
	// Fault is a fault on the API server of type watch-ended.
	Fault  string          `yaml:"fault"`
	Within strict.Duration `yaml:"within"`
}

func (c WatchedAgain) validate(where string, in *scope, p *problems) {
	in.apiFault(where+".fault", c.Fault, p, history.WatchEnded)
	p.positive(where+".within", c.Within)
}

func (c WatchedAgain) observed(t Times) observation { return happens(t.Ended[c.Fault] + c.Within.D()) }

// NeedsWatch reports whether the scenario can only be played with a handler that watches the API
// server: its watches end, or it has no other reason to call.
func (s Scenario) NeedsWatch() bool {
	named := slices.ContainsFunc(stepsOf[Notice](s), func(n Notice) bool { return len(n.Nodes) > 0 })
	return slices.ContainsFunc(s.Checks, func(c Check) bool { return c.WatchedAgain != nil || c.CallsBounded != nil && !named })
}
