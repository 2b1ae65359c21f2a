package verdict

import (
	"fmt"
	"math"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Losses has the parameters of checkLosses. Exactly one of max, answered and a window is set.
type Losses struct {
	// Of is what is probed: the DNS service, or the workload's Service.
	Of scenarios.Service `yaml:"of"`
	// Mode selects what counts: queries from fresh ports or requests over fresh connections, queries
	// from fixed ports or requests over kept connections, or all.
	Mode string `yaml:"mode"`
	// Max is how many may be lost.
	Max *int `yaml:"max,omitempty"`
	// ExceptConntrack does not count queries that connection tracking lost: those in
	// flight when kube-proxy removed their entry, and those for which the kernel could
	// not insert one. No CoreDNS setting prevents these losses. Only of dns, with max.
	ExceptConntrack bool `yaml:"exceptConntrack,omitempty"`
	// MinWindow is the shortest that the longest window of losses may be.
	MinWindow strict.Duration `yaml:"minWindow,omitempty"`
	// MaxWindow is the longest that a window of losses may be.
	MaxWindow strict.Duration `yaml:"maxWindow,omitempty"`
	// Answered is the share of the queries that must be answered, in percent, such as 99.99. Only of
	// dns.
	Answered float64 `yaml:"answered,omitempty"`
}

func (c Losses) window() bool { return c.MinWindow > 0 || c.MaxWindow > 0 }

// Validate checks the parameters.
func (c Losses) Validate(in *scenarios.Scope) {
	in.OneOf("of", string(c.Of), history.Words(scenarios.Services()))
	in.OneOf("mode", c.Mode, scenarios.ProbeModes())
	if c.Of == scenarios.Application {
		in.NeedsApplication(c.Mode)
	} else {
		in.NeedsProbe()
	}
	in.ExactlyOne("max, answered, a window by minWindow, maxWindow or both", c.Max != nil, c.window(), c.Answered != 0)
	switch {
	case c.Max != nil:
		in.AtLeast0("max", *c.Max)
	case c.MaxWindow > 0 && c.MinWindow > c.MaxWindow:
		in.Problem("minWindow", "%s is more than maxWindow (%s)", c.MinWindow.D(), c.MaxWindow.D())
	case c.Answered < 0 || c.Answered > 100:
		in.Problem("answered", "%v is not above 0 and at most 100", c.Answered)
	}
	if c.ExceptConntrack && (c.Max == nil || c.Of != scenarios.DNS) {
		in.Problem("exceptConntrack", "is only allowed with max, of dns")
	}
	if c.Answered != 0 && c.Of != scenarios.DNS {
		in.Problem("answered", "is only allowed of dns")
	}
}

// DecidedBy is how long it needs the recording.
func (Losses) DecidedBy(scenarios.Times) scenarios.Observation { return scenarios.AtEnd() }

var checkLosses = by(Kind{
	ID: "losses", Title: "dns lost, dns window, … (%s)", Verdicts: []ID{IDOfDNSLost, "dnsWindow", "dnsAnswered", "applicationLost", "applicationWindow"},
	Requires: "At most this many queries to the DNS service, or requests to the workload's Service, are lost; or the longest window of losses is within these bounds; or at least this share is answered. A request is lost if it is refused, not answered in time, or not answered with an HTTP status below 400.",
	Fix:      "set lameduck longer than kube-proxy and the readiness probe need to take the pod out of the Service, and the grace period longer than that; if the Service had no endpoint at all, that does not help: raise the number of replicas, on different nodes. spotdrill recommend computes these for your cluster",
	Fixes: map[ID]string{
		"dnsWindow":         "a window that is too long: set lameduck longer than kube-proxy and the readiness probe need to take the pod out of the Service, and the grace period longer than that; if the Service had no endpoint at all, that does not help: raise the number of replicas, on different nodes. spotdrill recommend computes these for your cluster. One that is too short, in a drill that shows an outage: the outage was smaller than this scenario states, which is no fault of your cluster",
		"applicationLost":   "let the pods go on serving after they are deleted, until every node has stopped sending requests there: a preStop hook that sleeps for some seconds, and a grace period longer than that; if the Service had no endpoint at all, raise the number of replicas, on different nodes",
		"applicationWindow": "a window that is too long: let the pods go on serving after they are deleted, until every node has stopped sending requests there: a preStop hook that sleeps for some seconds, and a grace period longer than that; if the Service had no endpoint at all, raise the number of replicas, on different nodes. One that is too short, in a drill that shows an outage: the outage was smaller than this scenario states",
	},
	Look: Look{Lane: LaneDNS, Text: "the lane DNS answers: where the window opens, and what the lanes of endpoints and pods show just before"},
}, losses)

func losses(j judge, v Verdict, c Losses) Verdict {
	of := scenarios.DNS
	if c.Of == scenarios.Application {
		of = c.Of
	}
	judgeIt, suffix := judge.lost, "Lost"
	switch {
	case c.window():
		judgeIt, suffix = judge.longestWindow, "Window"
	case c.Answered != 0:
		judgeIt, suffix = judge.answered, "Answered"
	}
	v = v.as(ID(string(of)+suffix), fmt.Sprintf("%s %s (%%s)", of, strings.ToLower(suffix)))
	if of == scenarios.Application {
		if j.application == nil {
			return v.requires("requests to an application", c.Mode).unknown("the scenario probes no application")
		}
		j = *j.application
	}
	return judgeIt(j, v, c)
}

// lost judges how many queries were lost.
func (j judge) lost(v Verdict, c Losses) Verdict {
	if c.Max == nil {
		return v.requires("a bound", c.Mode).unknown("the check gives no bound")
	}
	most := *c.Max
	v = v.requires(fmt.Sprintf("at most %d %s lost at the service", most, j.target.Queries), c.Mode)
	v, ok := j.judgeable(v, c.Mode)
	if !ok {
		return v
	}
	streams, except := j.counted(&v, c.Mode, c.ExceptConntrack)
	lost, asked := streams.Lost(), 0
	for _, s := range streams {
		asked += s.Asked
	}
	why := j.attribution()
	steady := why.Steady(streams).Lost()
	holes := why.Hiding(streams, c.ExceptConntrack)
	_, hidden := why.Hidden(holes, streams)
	switch {
	case steady > most:
		return v.fail(fmt.Sprintf("%d of %d lost%s; %s", lost, asked, except, j.target.Windows(streams)), capped(j.target.Around(j.Story, streams))...)
	case lost > most:
		return v.noise(fmt.Sprintf("%d of %d lost%s, only %d of them surely by the cluster: this machine was too busy meanwhile; %s", lost, asked, except, steady, j.target.Windows(streams)), capped(j.target.Around(j.Story, streams))...)
	case lost+hidden > most:
		return v.noise(fmt.Sprintf("%d of %d lost%s, and up to %d more might have been: %s", lost, asked, except, hidden, holes[0]))
	}
	return v.pass(fmt.Sprintf("%d of %d lost%s", lost, asked, except))
}

// answered judges which share was answered: at most the rest of it may be lost.
func (j judge) answered(v Verdict, c Losses) Verdict {
	want := fmt.Sprintf("at least %v %% of the %s to the service answered", c.Answered, j.target.Queries)
	asked, lost := 0, 0
	if j.measured != nil {
		for _, s := range j.measured.Streams(c.Mode) {
			asked, lost = asked+s.Asked, lost+s.Lost
		}
	}
	// A share has a few digits, so that what they round to is meant.
	most := int(math.Floor(float64(asked)*(100-c.Answered)/100 + 1e-6))
	v = j.lost(v, Losses{Mode: c.Mode, Max: &most})
	if v.Want = want; asked > 0 && v.Outcome != Unknown {
		answered := 100 * float64(asked-lost) / float64(asked)
		v.Numbers["answered_percent"] = answered
		v.Got = fmt.Sprintf("%.4f %% answered: %s", answered, v.Got)
	}
	return v
}

// longestWindow judges how long the longest window of losses was.
func (j judge) longestWindow(v Verdict, c Losses) Verdict {
	var bounds []string
	if c.MinWindow > 0 {
		bounds = append(bounds, "at least "+c.MinWindow.D().String())
	}
	if c.MaxWindow > 0 {
		bounds = append(bounds, "at most "+c.MaxWindow.D().String())
	}
	v = v.requires("the longest window of lost "+j.target.Queries+" "+strings.Join(bounds, " and ")+" long", c.Mode)
	v, ok := j.judgeable(v, c.Mode)
	if !ok {
		return v
	}
	least, most := c.MinWindow.D(), c.MaxWindow.D()
	streams, except := j.counted(&v, c.Mode, false)
	why := j.attribution()
	all, open := streams.Longest()
	surely := why.Unbroken(why.Steady(streams))
	holes := why.Hiding(streams, false)
	hidden, _ := why.Hidden(holes, streams)
	evidence := capped(j.target.Around(j.Story, streams))
	got := j.target.Windows(streams) + except
	switch {
	case most > 0 && surely > most:
		return v.fail(got, evidence...)
	case hidden > 0 && (most > 0 && all.Length()+hidden > most || why.Unbroken(streams) < least && all.Length()+hidden >= least):
		return v.noise(fmt.Sprintf("%s, and %s", got, holes[0]), evidence...)
	case most > 0 && all.Length() > most, why.Undisturbed(all) < least && all.Length() >= least:
		return v.noise("the control was lost or late at the same time: "+got, evidence...)
	case open && (most > 0 || all.Length() < least):
		return v.unknown("a window was still open when the recording ended: "+got, evidence...)
	case all.Length() < least:
		return v.fail(got, evidence...)
	}
	return v.pass(got, evidence...)
}

// counted is what a check counts of the streams of its modes: without the queries that
// this machine lost, with proof, and on request without those that connection tracking
// lost. except names both, with their numbers.
func (j judge) counted(v *Verdict, mode string, conntrack bool) (streams loss.Streams, except string) {
	streams = j.measured.Streams(mode)
	why := j.attribution()
	var left []loss.Cause
	leave := func(number, text string, causes ...loss.Cause) {
		was := streams.Lost()
		left = append(left, causes...)
		v.Counted = why.Without(left...)
		streams = v.Counted.Streams(mode)
		if n := was - streams.Lost(); n > 0 || number == "lost_conntrack" {
			v.Numbers[number] = float64(n)
			except += fmt.Sprintf(", without %d that %s", n, text)
		}
	}
	if why.Starved() && streams.Lost() > 0 {
		leave("lost_no_processor", "were lost at pods that had no processor", loss.NoProcessor)
	}
	if conntrack {
		leave("lost_conntrack", "connection tracking itself lost", loss.EntryRemoved, loss.InsertFailed)
	}
	return streams, except
}

// judgeable reports whether the streams that a check of the service selects can be
// believed. If not, the verdict has the reason.
func (j judge) judgeable(v Verdict, mode string) (Verdict, bool) {
	if j.measured == nil {
		return v.unknown("the scenario has no probe"), false
	}
	v.Numbers = j.measured.Numbers()
	for _, premise := range []Verdict{prober(j, checkProber.verdict()), control(j, checkControl.verdict()), baseline(j, checkBaseline.verdict())} {
		if premise.Outcome != Pass {
			v.Noise, v.Evidence, v.Premise = premise.Noise, premise.Evidence, premise.ID
			return v.unknown(premise.Check + ": " + premise.Got), false
		}
	}
	if len(j.measured.Streams(mode)) == 0 {
		return v.unknown(fmt.Sprintf("mode %q is not known", mode)), false
	}
	return v, true
}
