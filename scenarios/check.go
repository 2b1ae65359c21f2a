package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// Check is one requirement on what was recorded. Exactly one field is set. In
// addition, every drill is judged by the checks that always apply.
type Check struct {
	Marked            *Marked            `yaml:"marked,omitempty"`
	Drained           *Drained           `yaml:"drained,omitempty"`
	DaemonPodsLeft    *DaemonPodsLeft    `yaml:"daemonPodsLeft,omitempty"`
	Deleted           *Deleted           `yaml:"deleted,omitempty"`
	Untouched         *Untouched         `yaml:"untouched,omitempty"`
	NoEviction        *NoEviction        `yaml:"noEviction,omitempty"`
	NodeEvent         *NodeEvent         `yaml:"nodeEvent,omitempty"`
	DNSLost           *DNSLost           `yaml:"dnsLost,omitempty"`
	DNSWindow         *DNSWindow         `yaml:"dnsWindow,omitempty"`
	DNSAnswered       *DNSAnswered       `yaml:"dnsAnswered,omitempty"`
	ApplicationLost   *ApplicationLost   `yaml:"applicationLost,omitempty"`
	ApplicationWindow *ApplicationWindow `yaml:"applicationWindow,omitempty"`
	EndpointLeft      *EndpointLeft      `yaml:"endpointLeft,omitempty"`
	DrainedOnce       *DrainedOnce       `yaml:"drainedOnce,omitempty"`
	NotRestarted      *NotRestarted      `yaml:"notRestarted,omitempty"`
	QueueEmpty        *QueueEmpty        `yaml:"queueEmpty,omitempty"`
	Calls             *Calls             `yaml:"calls,omitempty"`
	MidDrain          *MidDrain          `yaml:"midDrain,omitempty"`

	NotScheduled    *NotScheduled    `yaml:"notScheduled,omitempty"`
	Replaced        *Replaced        `yaml:"replaced,omitempty"`
	GraceHonoured   *GraceHonoured   `yaml:"graceHonoured,omitempty"`
	NotStalled      *NotStalled      `yaml:"notStalled,omitempty"`
	CriticalLast    *CriticalLast    `yaml:"criticalLast,omitempty"`
	PodsLeft        *PodsLeft        `yaml:"podsLeft,omitempty"`
	BudgetKept      *BudgetKept      `yaml:"budgetKept,omitempty"`
	Resumed         *Resumed         `yaml:"resumed,omitempty"`
	BlockedReported *BlockedReported `yaml:"blockedReported,omitempty"`
	HandlerMemory   *HandlerMemory   `yaml:"handlerMemory,omitempty"`

	OthersKept         *OthersKept         `yaml:"othersKept,omitempty"`
	MarkKept           *MarkKept           `yaml:"markKept,omitempty"`
	AllTerminating     *AllTerminating     `yaml:"allTerminating,omitempty"`
	FinalizersHonoured *FinalizersHonoured `yaml:"finalizersHonoured,omitempty"`
	EventsBounded      *EventsBounded      `yaml:"eventsBounded,omitempty"`
	StopsCleanly       *StopsCleanly       `yaml:"stopsCleanly,omitempty"`
	TakenOver          *TakenOver          `yaml:"takenOver,omitempty"`
	MarkedFirst        *MarkedFirst        `yaml:"markedFirst,omitempty"`
	Retried            *Retried            `yaml:"retried,omitempty"`
	CallsBounded       *CallsBounded       `yaml:"callsBounded,omitempty"`
	RetryAfterKept     *RetryAfterKept     `yaml:"retryAfterKept,omitempty"`
	WatchedAgain       *WatchedAgain       `yaml:"watchedAgain,omitempty"`
	ReplacedFirst      *ReplacedFirst      `yaml:"replacedFirst,omitempty"`
	Removed            *Removed            `yaml:"removed,omitempty"`
	DisruptedAtOnce    *DisruptedAtOnce    `yaml:"disruptedAtOnce,omitempty"`
	DaemonSetRuns      *DaemonSetRuns      `yaml:"daemonSetRuns,omitempty"`
	Forgotten          *Forgotten          `yaml:"forgotten,omitempty"`
	Terminated         *Terminated         `yaml:"terminated,omitempty"`
	PodReported        *PodReported        `yaml:"podReported,omitempty"`
	AddOnUpgraded      *AddOnUpgraded      `yaml:"addOnUpgraded,omitempty"`
	HandlersAgree      *HandlersAgree      `yaml:"handlersAgree,omitempty"`
	LeadGained         *LeadGained         `yaml:"leadGained,omitempty"`
	LifecycleCompleted *LifecycleCompleted `yaml:"lifecycleCompleted,omitempty"`
}

// checkKind is what each kind of check knows of itself.
type checkKind interface {
	// validate checks the fields of the check at that path against what is in scope.
	validate(where string, in *scope, p *problems)
	// observed is how long a drill must be recorded to decide the check.
	observed(t Times) observation
}

// Kind returns the one kind of check that is set: its YAML key, such as
// "drainedOnce", and its value, such as a DrainedOnce. Both are zero unless exactly
// one is set.
func (c Check) Kind() (id string, value any) {
	id, value, err := strict.Only(c)
	if err != nil {
		return "", nil
	}
	return id, value
}

// DrainsFor returns the nodes that the checks require to be drained for a notice, by
// their names in the scenario.
func (s Scenario) DrainsFor(notice string) []string {
	var nodes []string
	for _, check := range s.Checks {
		if check.Drained != nil && check.Drained.Notice == notice {
			nodes = append(nodes, check.Drained.Node)
		}
	}
	return nodes
}
