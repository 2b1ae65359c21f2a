package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

var memory = regexp.MustCompile(`^[1-9]\d*(Mi|Gi)$`)

func validateDNS(c coredns.Settings, p *problems) {
	oneOf(p, "coredns.placement", c.Placement, coredns.Placements())
	validateReplicas("coredns.replicas", c.Replicas, p)
	validateReadiness("coredns.readiness", c.Readiness, p)
	if c.MinAvailable < 0 || c.MinAvailable > c.Replicas {
		p.add("coredns.minAvailable", "%d is not within 0 to replicas (%d)", c.MinAvailable, c.Replicas)
	}
	if c.MinAvailable != 0 && c.MaxUnavailable != "" {
		p.add("coredns.maxUnavailable", "is not allowed with minAvailable: a budget has one of them")
	}
	oneOfIfSet(p, "coredns.unhealthyPodEvictionPolicy", c.UnhealthyPodEvictionPolicy, UnhealthyPodEvictionPolicies())
	if c.UnhealthyPodEvictionPolicy != "" && c.MinAvailable == 0 && c.MaxUnavailable == "" {
		p.add("coredns.unhealthyPodEvictionPolicy", "needs a budget: minAvailable or maxUnavailable")
	}
	oneOfIfSet(p, "coredns.antiAffinity", c.AntiAffinity, coredns.AntiAffinities())
	for i, t := range c.TopologySpread {
		oneOf(p, fmt.Sprintf("coredns.topologySpread[%d].by", i), t.By, coredns.SpreadBy())
		oneOf(p, fmt.Sprintf("coredns.topologySpread[%d].whenUnsatisfiable", i), t.WhenUnsatisfiable, coredns.WhenUnsatisfiable())
	}
	for field, a := range map[string]coredns.Amount{"maxUnavailable": c.MaxUnavailable, "rollout.maxUnavailable": c.Rollout.MaxUnavailable, "rollout.maxSurge": c.Rollout.MaxSurge} {
		if a != "" && !a.Valid() {
			p.add("coredns."+field, "%q is neither a number of pods nor a share such as 33%%", a)
		}
	}
	for field, d := range map[string]strict.Duration{"readiness.timeout": c.Readiness.Timeout, "readiness.initialDelay": c.Readiness.InitialDelay, "rollout.minReady": c.Rollout.MinReady} {
		if d.D()%time.Second != 0 || d.D() > time.Minute {
			p.add("coredns."+field, "%s is not a whole number of seconds, up to a minute", d.D())
		}
	}
	if a := c.AutoScaling; a != (coredns.AutoScaling{}) {
		validateReplicas("coredns.autoScaling.min", a.Min, p)
		validateReplicas("coredns.autoScaling.max", a.Max, p)
		if c.Replicas < a.Min || c.Replicas > a.Max {
			p.add("coredns.replicas", "%d is not within autoScaling, %s", c.Replicas, a)
		}
	}
	for field, given := range map[string]bool{"memory": c.Memory != "", "podENI": c.PodENI, "shareNodes": c.ShareNodes} {
		if given && c.Placement != coredns.Launched {
			p.add("coredns."+field, "is only allowed with placement %s", coredns.Launched)
		}
	}
	if c.Memory != "" && !memory.MatchString(c.Memory) {
		p.add("coredns.memory", "%q is no amount of memory such as 2Gi or 512Mi", c.Memory)
	}
	needs := fmt.Sprintf("lameduck (%s)", c.Lameduck.D())
	if c.PreStop != 0 {
		needs = fmt.Sprintf("preStop and lameduck together (%s)", c.PreStop.D()+c.Lameduck.D())
	}
	killed := c.GracePeriod.D() <= c.PreStop.D()+c.Lameduck.D()
	if killed && !c.Unsafe || c.GracePeriod.D() <= 0 || c.GracePeriod.D()%time.Second != 0 {
		p.add("coredns.gracePeriod", "%s is not a whole number of seconds above %s, so the pod would be killed before it is done; unsafe: true permits that", c.GracePeriod.D(), needs)
	}
	if c.Unsafe && !killed {
		p.add("coredns.unsafe", "is only allowed with a grace period that is not above %s", needs)
	}
	if c.PreStop.D()%time.Second != 0 {
		p.add("coredns.preStop", "%s is not a whole number of seconds", c.PreStop.D())
	}
	for i, t := range c.Tolerations {
		validateToleration(fmt.Sprintf("coredns.tolerations[%d]", i), t, p)
	}
	if c.Port < 0 || c.Port > mostPort {
		p.add("coredns.port", "%d is not within 1 to %d", c.Port, mostPort)
		return
	}
	oneOfIfSet(p, "coredns.trafficDistribution", c.TrafficDistribution, coredns.TrafficDistributions())
	taken := []string{"8080", "8181", "9153"} // by the cluster's own Corefile
	if c.Corefile != "" {
		taken = validateCorefile(c, p)
	}
	if slices.Contains(taken, strconv.Itoa(c.PodPort())) {
		p.add("coredns.port", "CoreDNS needs %d itself: for health, ready or metrics", c.PodPort())
	}
}

// mostPort is the last port.
const mostPort = 1<<16 - 1

// validateToleration keeps the API server's rules for a toleration.
func validateToleration(where string, t coredns.Toleration, p *problems) {
	oneOfIfSet(p, where+".operator", t.Operator, coredns.Operators())
	oneOfIfSet(p, where+".effect", t.Effect, append(TaintEffects(), coredns.NoExecute))
	switch exists := t.Operator == coredns.Exists; {
	case t.Key == "" && !exists:
		p.add(where, "needs a key, or operator Exists, which tolerates every taint")
	case t.Value != "" && exists:
		p.add(where+".value", "is not allowed with operator Exists")
	}
	if t.TolerationSeconds != nil && t.Effect != coredns.NoExecute {
		p.add(where+".tolerationSeconds", "needs effect NoExecute")
	}
}

// validateCorefile checks that CoreDNS becomes Ready with the Corefile and answers at the port of the settings, and that
// all that matters of it is known. It returns the ports of health and ready.
func validateCorefile(c coredns.Settings, p *problems) (taken []string) {
	own := coredns.Read(coredns.Source{Text: c.Corefile})
	switch {
	case own.Refused != "":
		p.add("coredns.corefile", "CoreDNS does not start with it: %s", own.Refused)
		return nil
	case len(own.Unread) > 0:
		p.add("coredns.corefile", "it depends on %s, which the drill does not have", strings.Join(own.Unread, ", "))
		return nil
	case c.LameduckUnknown:
		p.add("coredns.lameduck", "is required: that of the Corefile is unknown: %s", own.LameduckUnknown)
		return nil
	}
	if err := own.ServesAt(c.PodPort()); err != nil {
		p.add("coredns.corefile", "the Service sends all queries to port %d of the pods, but %v; set coredns.port, or change the server block", c.PodPort(), err)
	}
	text, err := c.Text("")
	if err != nil {
		p.add("coredns.corefile", "%v", err)
		return nil
	}
	read := coredns.Read(coredns.Source{Text: text})
	switch {
	case read.Ready[0].Host != "" || read.Ready[0].Port == "":
		p.add("coredns.corefile", "ready is at %s, which the readiness probe does not reach", read.Ready[0])
	case read.Health[0].Host != "" || read.Health[0].Port == "":
		p.add("coredns.corefile", "health is at %s, which the liveness probe does not reach", read.Health[0])
	}
	return []string{read.Ready[0].Port, read.Health[0].Port}
}
