package verdict

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// GraceHonoured has the parameters of checkGraceHonoured.
type GraceHonoured struct {
	NodePods `yaml:",inline"`
	// AtLeast is the shortest time that a pod must get to stop.
	AtLeast strict.Duration `yaml:"atLeast"`
}

// Validate checks the parameters.
func (c GraceHonoured) Validate(in *scenarios.Scope) {
	c.NodePods.Validate(in)
	in.Positive("atLeast", c.AtLeast)
}

var checkGraceHonoured = by(Kind{
	ID: "graceHonoured", Title: "grace of %s honoured",
	Requires: "The pods terminate with no less than their own grace period, and have at least this long to stop.",
	Fix:      "evict with no gracePeriodSeconds of the handler's own, so that each pod gets the one that it declares",
	Look:     Look{Lane: LanePods, Text: "the lane Pods: the grace period at which the pod began to terminate, and when it exited"},
}, graceHonoured)

func graceHonoured(j judge, v Verdict, c GraceHonoured) Verdict {
	v = v.requires(fmt.Sprintf("terminating with no less than their own grace period, and at least %s to stop", c.AtLeast.D()), c.Pods)
	node, put, why := j.Noticed(c.Node, c.Notice)
	if why != "" {
		return v.unknown(why)
	}
	pods, shortest := 0, time.Duration(-1)
	var evidence []history.Event
	for _, p := range j.toLeave(node, put, c.Pods) {
		if p.FinishedBy(j.Gone(node)) {
			continue
		}
		pods++
		terminating, ok := p.Terminating()
		switch {
		case !ok && j.Unseen(j.Over(put)) != "":
			return v.unknown(fmt.Sprintf("%s had not begun to terminate: %s", p.Name(), j.Unseen(j.Over(put))), put)
		case !ok:
			return v.fail(p.Name()+" never began to terminate", put)
		}
		own := p.Number(history.Grace)
		stopped, ok := p.Stopped()
		// A kubelet itself sets it to 0 to remove a pod whose containers have ended.
		if cut, found := p.First(func(e history.Event) bool {
			return e.Kind == history.PodTerminating && e.Numbers[history.Grace] < own && (!ok || e.At < stopped.At)
		}); found {
			return v.fail(fmt.Sprintf("%s was given %.0f s of its %.0f s", p.Name(), cut.Numbers[history.Grace], own), cut)
		}
		for _, e := range known(terminating, stopped) {
			if _, why := j.Earliest(e); why != "" {
				return v.unknown(fmt.Sprintf("%s: when it had to stop, or had stopped, is unknown: %s", p.Name(), why), e)
			}
		}
		had := min(j.Gone(node), j.Observed)
		if ok && stopped.At <= had {
			had = stopped.At
		}
		had -= terminating.At
		if had < c.AtLeast.D() {
			if why := j.Unseen(terminating.At + c.AtLeast.D()); why != "" && !ok {
				return v.unknown(p.Name()+" had not stopped: "+why, terminating)
			}
			return v.fail(fmt.Sprintf("%s had %s to stop", p.Name(), history.Seconds(had)), known(terminating, stopped)...)
		}
		if shortest < 0 || had < shortest {
			shortest = had
		}
		evidence = append(evidence, terminating)
	}
	if pods == 0 {
		return v.unknown(fmt.Sprintf("no %s pod was on %s", c.Pods, node), put)
	}
	v.Numbers = map[string]float64{"pods": float64(pods), "shortest_seconds": shortest.Seconds()}
	return v.pass(fmt.Sprintf("%s had %s or more", history.Count(pods, "pod"), history.Seconds(shortest)), capped(evidence)...)
}
