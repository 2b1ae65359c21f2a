package verdict

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
	"github.com/spotdrill/spotdrill/scenarios"
)

// HandlerMemory has the parameters of checkHandlerMemory.
type HandlerMemory struct {
	// During is a message step with every and for, of at least 5m.
	During string `yaml:"during"`
	// GrowthMiB is the most by which a pod of the handler may grow.
	GrowthMiB int `yaml:"growthMiB"`
}

// shortestSoak is the shortest flood in which growth can be distinguished from the noise of a
// garbage collector: its fifth has six readings of the memory.
const shortestSoak = 5 * time.Minute

// Validate checks the parameters.
func (c HandlerMemory) Validate(in *scenarios.Scope) {
	in.OneOf("during", c.During, in.Sent)
	if lasts, flood := in.Floods[c.During]; slices.Contains(in.Sent, c.During) && (!flood || lasts < shortestSoak) {
		in.Problem("during", "%q is not a message step with every, and with for of at least %s", c.During, shortestSoak)
	}
	if c.GrowthMiB <= 0 {
		in.Problem("growthMiB", "must be more than 0")
	}
}

// Needs is what it is judged by.
func (HandlerMemory) Needs() scenarios.Needs { return scenarios.Needs{Memory: true} }

// DecidedBy is how long it needs the recording.
func (HandlerMemory) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkHandlerMemory = by(Kind{
	ID: "handlerMemory", Title: "the handler's memory during %s",
	Requires: "The memory of each of the handler's pods does not grow with the messages of a flood: what it holds at the flood's end (the median of its last fifth) is at most so much more than what it held after a tenth of it (the median of the fifth that follows).",
	Fix:      "bound what the handler remembers of messages that are done: caches of ids, per-instance state, goroutines that wait; a limit on time or number for each",
	Look:     Look{Text: "the memory.used events in history.jsonl: does the memory grow in a line, in steps, or once?"},
}, handlerMemory)

func handlerMemory(j judge, v Verdict, c HandlerMemory) Verdict {
	v = v.requires(fmt.Sprintf("each pod of the handler grows by at most %d MiB", c.GrowthMiB), c.During)
	sent := j.All(func(e history.Event) bool { return e.Kind == history.MessagePut && e.Step() == c.During })
	if len(sent) == 0 {
		return v.unknown(fmt.Sprintf("no message of %q was sent", c.During))
	}
	from, to := sent[0].At, sent[len(sent)-1].At
	if why := j.Unseen(to); why != "" {
		return v.unknown("not to the end of the flood: " + why)
	}
	if whole := j.Scenario.FloodTime(c.During); to-from < whole-whole/10 {
		return v.unknown(fmt.Sprintf("the flood lasted only %s of %s", history.Seconds(to-from), whole), sent[0])
	}
	var worst story.Growth
	pods := 0
	for _, p := range j.Pods {
		if gone, ok := p.Left(); !p.OfHandler(j.History.Meta.Handler) || ok && gone.At < from {
			continue
		}
		pods++
		g, why := story.MemoryGrowth(j.Story, p, from, to)
		if why != "" {
			return v.unknown(p.Name() + ": " + why)
		}
		if pods == 1 || g.Bytes() > worst.Bytes() {
			worst = g
		}
	}
	if pods == 0 {
		return v.unknown("no pod of the handler was seen")
	}
	v.Numbers = map[string]float64{"messages": float64(len(sent)), "grown_bytes": worst.Bytes()}
	got := fmt.Sprintf("%s with %s in %s", worst, history.Count(len(sent), "message"), history.Seconds(to-from))
	if worst.Bytes() > float64(c.GrowthMiB)*(1<<20) {
		return v.fail(got, worst.Readings...)
	}
	return v.pass(got, worst.Readings...)
}
