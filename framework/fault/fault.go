// Package fault is what goes wrong in a drill, on any target: what a fault is, and its life. Where it
// happens, a target implements what a hit does: the recording proxy for SQS, the API server and EC2's
// answers, launch for instances, imds for instance metadata, and run for the queue itself.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Fault makes a target fail for the handler. It begins with its step. It ends when its time is over
// or when it has affected its last call, whichever comes first, and at the latest when the drill
// ends. Which fields it has depends on its target and type; docs/faults.md lists them.
type Fault struct {
	// On is what fails: the queue (SQS), the Kubernetes API server, what EC2 launches, or the
	// metadata service of a node's instance.
	On history.FaultTarget `yaml:"on" json:"on"`
	// Name identifies the fault in later steps and in checks.
	Name string `yaml:"name" json:"name"`
	// Type is what goes wrong; docs/faults.md describes what a client sees.
	Type history.FaultType `yaml:"type" json:"type"`
	// Node is the node whose instance it is, on metadata. Left out, it is each node on which a pod of
	// the handler runs when the fault begins.
	Node string `yaml:"node,omitempty" json:"node,omitempty"`
	// Actions are the calls that are affected, on the queue. Left out, all of them are; with
	// lost-answer, only deletions.
	Actions []string `yaml:"actions,omitempty" json:"actions,omitempty"`
	// Verbs are the verbs of RBAC that are affected, on the API server. Left out, all of them
	// are.
	Verbs []string `yaml:"verbs,omitempty" json:"verbs,omitempty"`
	// Resources are what the affected calls are about, on the API server, as in kubectl: nodes,
	// pods/eviction, leases.coordination.k8s.io. Left out, all of them are.
	Resources []string `yaml:"resources,omitempty" json:"resources,omitempty"`
	// At is the call at which the fault starts, by what it does and its number since the fault's step:
	// patch nodes victim #1, create pods/eviction #2, DeleteMessage #1. Left out, it starts with its step. Without
	// actions, verbs and resources, calls of that kind are affected, and one of them unless count or for is given.
	// Of ReceiveMessage, only answers with messages count.
	At string `yaml:"at,omitempty" json:"at,omitempty"`
	// Count is the number of calls that are affected. Required without for and at.
	Count int `yaml:"count,omitempty" json:"count,omitempty"`
	// OneIn is one of how many of these calls is affected: with 5, the first, the sixth and so on. Left
	// out, all of them are.
	OneIn int `yaml:"oneIn,omitempty" json:"oneIn,omitempty"`
	// For is how long the fault lasts, from its start. Required without count and at.
	For strict.Duration `yaml:"for,omitempty" json:"for,omitempty"`

	// By is the delay of each answer, with type delay, or of each call, with type held.
	By strict.Duration `yaml:"by,omitempty" json:"by,omitempty"`
	// Code is the error code; docs/faults.md lists those of each type. Only client-error
	// requires it.
	Code history.ErrorCode `yaml:"code,omitempty" json:"code,omitempty"`
	// Status is the HTTP status, with type error: 500 or 503.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
	// RetryAfter is the Retry-After of the answer in whole seconds, with type throttle on the
	// API server. Left out, the answer has none.
	RetryAfter strict.Duration `yaml:"retryAfter,omitempty" json:"retryAfter,omitempty"`
	// After is how much later a duplicate is delivered, with type duplicate. Left out,
	// it is in the same batch, or in the next one if that is full.
	After strict.Duration `yaml:"after,omitempty" json:"after,omitempty"`
	// ToAnother delivers duplicates to a different replica than the original, with type
	// duplicate.
	ToAnother bool `yaml:"toAnother,omitempty" json:"toAnother,omitempty"`
	// Silent leaves the calls that type black-hole holds without an answer until the drill
	// ends. New calls are answered when the fault is over. Left out, the held calls are reset
	// then. Requires for.
	Silent bool `yaml:"silent,omitempty" json:"silent,omitempty"`
	// Capacity is what EC2 lacks, spot or on-demand, with type no-capacity. Left out, it
	// launches neither.
	Capacity string `yaml:"capacity,omitempty" json:"capacity,omitempty"`
}

// receive is the action that a fault can only start at if its answer has messages.
const receive = "ReceiveMessage"

// ofAnswers are the types of the queue that a fault can have that starts at receive.
func ofAnswers() []history.FaultType {
	return []history.FaultType{history.Delay, history.LostAnswer, history.Duplicate}
}

// Actions lists the calls that a fault of the queue can be limited to: those that a handler makes.
func Actions() []string {
	return []string{
		receive, "DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch",
		"GetQueueUrl", "GetQueueAttributes",
	}
}

// Verbs lists the verbs that a fault of the API server can be limited to.
func Verbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
}

// ErrorCode is the error that a refused call gets: the given one, or the default of the type.
func (f Fault) ErrorCode() history.ErrorCode {
	if kind, ok := history.KindOfFault(f.On, f.Type); ok && f.Code == "" && len(kind.Codes) > 0 {
		return kind.Codes[0]
	}
	return f.Code
}

// String is the fault in words.
func (f Fault) String() string {
	text := fmt.Sprintf("fault %s on %s", f.Name, f.On)
	if f.Node != "" {
		text += " of " + f.Node
	}
	text += ": " + string(f.Type)
	for _, d := range []struct {
		name string
		is   strict.Duration
	}{{"by", f.By}, {"after", f.After}, {"to retry after", f.RetryAfter}, {"for", f.For}} {
		if d.is > 0 {
			text += fmt.Sprintf(" %s %s", d.name, d.is.D())
		}
	}
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
		text += ", " + history.Count(f.Count, "call")
	}
	if calls := slices.Concat(f.Actions, f.Verbs); len(calls) > 0 {
		text += " of " + strings.Join(calls, ", ")
	}
	if len(f.Resources) > 0 {
		text += " about " + strings.Join(f.Resources, ", ")
	}
	if f.At != "" {
		text += ", from " + f.At
	}
	if f.OneIn > 0 {
		text += fmt.Sprintf(", one in %d", f.OneIn)
	}
	return text
}

// Problem is what is wrong with a field of a fault; with the fault as a whole if Field is empty.
type Problem struct{ Field, Text string }

// problems are those found so far.
type problems []Problem

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, Problem{field, fmt.Sprintf(format, args...)})
}

// Problems is what is wrong with the fault, whatever the drill is.
func (f Fault) Problems() []Problem {
	var p problems
	if f.Name == "" {
		p.add("name", "must not be empty")
	}
	if !oneOf(&p, "on", f.On, history.FaultTargets()) || !oneOf(&p, "type", f.Type, history.FaultTypes(f.On)) {
		return p
	}
	kind, _ := history.KindOfFault(f.On, f.Type)
	f.checkFields(kind, &p)
	f.checkCalls(&p)
	f.checkEnd(kind, &p)
	f.checkAnswer(kind, &p)
	return p
}

// Err is Problems as an error.
func (f Fault) Err() error {
	var errs []error
	for _, p := range f.Problems() {
		errs = append(errs, errors.New(strings.TrimSpace(p.Field+" "+p.Text)))
	}
	return errors.Join(errs...)
}

// checkFields checks which fields are given.
func (f Fault) checkFields(kind history.FaultKind, p *problems) {
	value := reflect.ValueOf(f)
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("yaml"), ",")
		required, given := slices.Contains(kind.Requires, name), !value.Field(i).IsZero()
		switch {
		case name == "on" || name == "name" || name == "type":
		case required && !given:
			p.add(name, "is required with type %s on %s", f.Type, f.On)
		case given && !required && !slices.Contains(kind.Allows, name):
			p.add(name, "is not allowed with type %s on %s, which has: %s", f.Type, f.On, strings.Join(slices.Concat(kind.Requires, kind.Allows), ", "))
		}
	}
}

// resourceName is a resource as in kubectl: its plural, its group unless that is the core
// group, and a subresource.
var resourceName = regexp.MustCompile(`^[a-z]+(\.[a-z0-9.-]+)?(/[a-z]+)?$`)

// checkCalls checks what the fault affects.
func (f Fault) checkCalls(p *problems) {
	for _, action := range f.Actions {
		oneOf(p, "actions", action, Actions())
	}
	for _, verb := range f.Verbs {
		oneOf(p, "verbs", verb, Verbs())
	}
	for _, name := range f.Resources {
		if !resourceName.MatchString(name) {
			p.add("resources", "%q is not a resource as in kubectl, such as nodes, pods/eviction or leases.coordination.k8s.io", name)
		}
	}
	if f.At != "" {
		switch at, err := ParsePoint(f.On, f.At); {
		case err != nil:
			p.add("at", "%v", err)
		case at.Call == receive && !slices.Contains(ofAnswers(), f.Type):
			p.add("at", "%q requires a type that changes answers (%s): only those with messages count", f.At, strings.Join(history.Words(ofAnswers()), ", "))
		}
	}
	if f.OneIn != 0 && f.OneIn < 2 {
		p.add("oneIn", "%d is less than 2", f.OneIn)
	}
	if f.Capacity != "" {
		oneOf(p, "capacity", f.Capacity, []string{history.Spot, history.OnDemand})
	}
}

// checkEnd checks what limits the fault.
func (f Fault) checkEnd(kind history.FaultKind, p *problems) {
	lasts := f.For.D()
	switch {
	case f.Count < 0:
		p.add("count", "%d is less than 0", f.Count)
	case f.Count == 0 && lasts <= 0 && f.At == "" && !slices.Contains(kind.Requires, "for"):
		p.add("", "requires count, for or both: a fault must end")
	}
	switch {
	case lasts < 0:
		p.add("for", "%s is less than 0s", lasts)
	case lasts == 0:
	case f.After.D() >= lasts:
		p.add("after", "%s is not less than for (%s): no duplicate would be delivered", f.After.D(), lasts)
	case f.Type == history.RecreatedQueue && lasts < history.DeletedFor:
		p.add("for", "%s is less than the %s for which SQS keeps the name of a deleted queue", lasts, history.DeletedFor)
	case f.Type == history.ShortRetention && lasts <= history.ShortestRetention:
		p.add("for", "%s is not more than %s, for which SQS keeps messages at least: none would expire", lasts, history.ShortestRetention)
	}
	if f.Silent && lasts <= 0 {
		p.add("silent", "requires for: calls that stay unanswered do not end a fault")
	}
}

// checkAnswer checks what an affected call gets.
func (f Fault) checkAnswer(kind history.FaultKind, p *problems) {
	if f.Code != "" && len(kind.Codes) > 0 {
		oneOf(p, "code", f.Code, kind.Codes)
	}
	if f.Status != 0 && f.Status != http.StatusInternalServerError && f.Status != http.StatusServiceUnavailable {
		p.add("status", "%d is not known; allowed: 500, 503", f.Status)
	}
	if f.RetryAfter.D()%time.Second != 0 {
		p.add("retryAfter", "%s is not a whole number of seconds", f.RetryAfter.D())
	}
}

// oneOf reports whether the value of a field is one of those that are allowed.
func oneOf[T ~string](p *problems, field string, value T, allowed []T) bool {
	if slices.Contains(allowed, value) {
		return true
	}
	p.add(field, "%q is not known%s", value, strict.Among(string(value), history.Words(allowed)))
	return false
}
