package scenarios

import "github.com/spotdrill/spotdrill/framework/strict"

// OthersKept requires that the handler keeps what others put on the node: their taints
// with their effects, labels, annotations, and a cordon. Others are everybody who did so
// before the drill began. What Kubernetes changes itself is no finding.
type OthersKept struct {
	// Node is a name under nodes, of a node with prepared.
	Node string `yaml:"node"`
}

func (c OthersKept) validate(where string, in *scope, p *problems) {
	in.node(where, c.Node, p)
	if !in.prepared[c.Node] {
		p.add(where+".node", "nothing is prepared on %q, so that nothing is lost there proves nothing", c.Node)
	}
}

func (c OthersKept) observed(t Times) observation { return absent(t.Stepped+RepeatTime).on(c.Node, t) }

// MarkKept requires that the handler never takes its last mark off the node before the
// node's instance is gone.
type MarkKept struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

func (c MarkKept) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
}

func (c MarkKept) observed(t Times) observation { return absent(t.Stepped+RepeatTime).on(c.Node, t) }

// AllTerminating requires that every evictable pod of the node begins to terminate before
// the notice's deadline. It is for nodes on which none can end, and drained therefore
// cannot hold.
type AllTerminating struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
}

func (c AllTerminating) validate(where string, in *scope, p *problems) {
	in.noticeFor(where, c.Node, c.Notice, p)
}

func (c AllTerminating) observed(t Times) observation {
	return happens(t.Deadlines[c.Notice]).on(c.Node, t)
}

// FinalizersHonoured requires that these pods, which have a finalizer that nobody removes,
// are evicted and stay in the API.
type FinalizersHonoured struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	Pods   string `yaml:"pods"`
}

func (c FinalizersHonoured) validate(where string, in *scope, p *problems) {
	in.podsFor(where, c.Node, c.Notice, c.Pods, p)
}

func (c FinalizersHonoured) observed(t Times) observation {
	return absent(t.Stepped+RepeatTime).on(c.Node, t)
}

// EventsBounded requires that the handler reports blocked evictions without an event for
// each attempt: at most this many for each blocked pod.
type EventsBounded struct {
	Node   string `yaml:"node"`
	Notice string `yaml:"notice"`
	Pods   string `yaml:"pods"`
	// Max is how many events there may be for each pod, repetitions included.
	Max int `yaml:"max"`
}

func (c EventsBounded) validate(where string, in *scope, p *problems) {
	in.podsFor(where, c.Node, c.Notice, c.Pods, p)
	if c.Max < 1 {
		p.add(where+".max", "%d is less than 1: a blocked eviction must be reported", c.Max)
	}
}

func (c EventsBounded) observed(t Times) observation {
	return absent(t.Sent[c.Notice]+BlockedTime).on(c.Node, t)
}

// StopsCleanly requires that the handler's pods that a disturbance asks to terminate
// receive no more messages, and end by themselves within their grace period.
type StopsCleanly struct {
	// Disturbance is a disturb step that terminates pods of the handler.
	Disturbance string `yaml:"disturbance"`
}

func (c StopsCleanly) validate(where string, in *scope, p *problems) {
	oneOf(p, where+".disturbance", c.Disturbance, in.disturbances)
}

func (StopsCleanly) observed(t Times) observation { return happens(t.Caused + StopTime) }

// TakenOver requires that another replica of the handler goes on with the drain in time
// after the one that a disturbance removed has ended.
type TakenOver struct {
	Node string `yaml:"node"`
	// Disturbance is a disturb step that removes the replica for good.
	Disturbance string `yaml:"disturbance"`
	// Within counts from the end of the replica.
	Within strict.Duration `yaml:"within"`
}

func (c TakenOver) validate(where string, in *scope, p *problems) {
	in.node(where, c.Node, p)
	oneOf(p, where+".disturbance", c.Disturbance, in.disturbances)
	p.positive(where+".within", c.Within)
}

func (c TakenOver) observed(t Times) observation {
	return happens(t.Caused+c.Within.D()).on(c.Node, t)
}
