package recommend

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/logic"
)

// lintSpread checks whether the pods end together with one node, or with one zone.
func (d DNS) lintSpread() []Finding {
	if len(d.Pods) < 2 {
		return nil
	}
	first := d.Pods[0]
	elsewhere := func(of func(Pod) string) bool {
		return slices.ContainsFunc(d.Pods, func(p Pod) bool { return of(p) != of(first) })
	}
	switch {
	case !elsewhere(func(p Pod) string { return p.Node }) && d.Size.Nodes > 1:
		return []Finding{breaks("not-all-on-one-node", "all %s are on node %s, and the cluster has %s", history.Count(len(d.Pods), "pod"), first.Node, history.Count(d.Size.Nodes, "node"))}
	case d.Zones > 1 && first.Zone != "" && !elsewhere(func(p Pod) string { return p.Zone }):
		return []Finding{breaks("not-all-in-one-zone", "all %s are in zone %s, and the nodes are in %s", history.Count(len(d.Pods), "pod"), first.Zone, history.Count(d.Zones, "zone"))}
	}
	return nil
}

// lintRollout checks whether a rollout keeps pods that answer.
func (d DNS) lintRollout(s coredns.Settings) []Finding {
	const rule = "rollout-keeps-pods"
	strategy := d.Workload.Strategy
	switch {
	case d.Workload.Kind != Deployment || s.Replicas < 1:
		return nil
	case strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return []Finding{breaks(rule, "strategy Recreate: a rollout ends all %s before it starts another", history.Count(s.Replicas, "pod"))}
	case s.Replicas < 2 || strategy.RollingUpdate == nil || strategy.RollingUpdate.MaxUnavailable == nil:
		return nil // one replica breaks another rule
	}
	most := strategy.RollingUpdate.MaxUnavailable
	switch n, err := intstr.GetScaledValueFromIntOrPercent(most, s.Replicas, false); {
	case err != nil:
		return []Finding{unknown(rule, "maxUnavailable %q of the rollout: %v", most.String(), err)}
	case n >= s.Replicas:
		return []Finding{breaks(rule, "maxUnavailable %s: a rollout may end all %s at once", most.String(), history.Count(s.Replicas, "pod"))}
	}
	return nil
}

// spreading are the constraints that the pods lack by the findings. They are preferences: a pod that
// fits nowhere else would stay pending.
func (a Advice) spreading() (out []corev1.TopologySpreadConstraint) {
	for _, c := range []struct{ rule, key string }{{"not-all-on-one-node", corev1.LabelHostname}, {"not-all-in-one-zone", corev1.LabelTopologyZone}} {
		if a.violates(c.rule) {
			out = append(out, corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: c.key, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: a.dns.Workload.Selector})
		}
	}
	return out
}

// lintPort checks whether the plugin of that name listens where a probe asks.
func (d DNS) lintPort(rule string, get corev1.HTTPGetAction, at []coredns.Address, plugin string) []Finding {
	port, ok := d.number(get.Port)
	switch {
	case !ok:
		return []Finding{unknown(rule, "the probe asks port %q, which the container does not declare", get.Port.String()).fixedBy(listed(at))}
	case get.Scheme == corev1.URISchemeHTTPS:
		return []Finding{breaks(rule, "the probe asks port %d over HTTPS, and %s only answers HTTP", port, plugin).fixedBy("scheme HTTP, " + listed(at))}
	}
	is := logic.No
	for _, a := range at {
		of := d.reaches(a.Host, get.Host)
		if a.Port == "" {
			of = min(of, logic.Maybe)
		} else if a.Port != strconv.Itoa(int(port)) {
			of = logic.No
		}
		is = max(is, of)
	}
	switch is {
	case logic.Yes:
		return nil
	case logic.Maybe:
		return []Finding{unknown(rule, "the probe asks port %d, and it is unknown where %s listens: %s", port, plugin, listed(at)).fixedBy(listed(at))}
	}
	return []Finding{breaks(rule, "the probe asks port %d, and %s listens on %s", port, plugin, listed(at)).fixedBy(listed(at))}
}

// reaches reports whether a probe of that host, which is empty for the pod, reaches what listens on a host.
func (d DNS) reaches(host, probe string) logic.Truth {
	switch {
	case host == "" || host == probe:
		return logic.Yes
	case !strings.Contains(host, "{"):
		return logic.No
	}
	name := strings.Trim(host, "{$%}")
	for _, e := range d.Env {
		if e.Name == name && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			own := e.ValueFrom.FieldRef.FieldPath == "status.podIP" || e.ValueFrom.FieldRef.FieldPath == "status.hostIP" && d.Workload.Template.Spec.HostNetwork
			return logic.Is(own && probe == "")
		}
	}
	return logic.Maybe
}

// asks is the path that a probe asks: the kubelet reads it as a part of a URL.
func asks(get *corev1.HTTPGetAction) string {
	at, err := url.Parse(get.Path)
	if err != nil {
		return get.Path
	}
	return "/" + strings.TrimPrefix(at.Path, "/")
}

func listed(at []coredns.Address) string {
	var out []string
	for _, a := range at {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}

// number is the port of a probe, which may be the name of a port of the container.
func (d DNS) number(port intstr.IntOrString) (int32, bool) {
	if n := port.IntValue(); n > 0 {
		return int32(n), true
	}
	if c := d.container(); c != nil {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				return p.ContainerPort, true
			}
		}
	}
	return 0, false
}

// readyPort is the port at which a probe can ask /ready of the pods with their present Corefile; false if
// there is none. It is the only source of the port of a probe that is proposed.
func (d DNS) readyPort(c coredns.Corefile) (int, bool) {
	if c.Refused != "" || d.CorefileUnread != "" {
		return 0, false // no pod would start at all
	}
	for _, at := range c.Ready {
		if d.reaches(at.Host, "") != logic.Yes || slices.ContainsFunc(c.Health, func(h coredns.Address) bool { return h.Port == "" || h.Port == at.Port }) {
			continue // nothing but the pod itself reaches it; or health answers there, or may
		}
		if port, err := strconv.Atoi(at.Port); err == nil && port > 0 {
			return port, true
		}
	}
	return 0, false
}

// drainTaint is what Karpenter sets on a node that it drains.
var drainTaint = corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}

// lintTolerated checks whether Karpenter would leave CoreDNS on a node that it drains.
func (d DNS) lintTolerated() []Finding {
	on := slices.DeleteFunc(slices.Clone(d.Pods), func(p Pod) bool { return p.Pool == "" })
	if len(on) == 0 || d.Workload.Kind == DaemonSet || !slices.ContainsFunc(d.Workload.Template.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, &drainTaint) }) {
		return nil
	}
	return []Finding{breaks("dns-drained-at-a-notice", "CoreDNS tolerates the taint %s of nodes that Karpenter drains, and is on such nodes: %s", drainTaint.Key, places(on))}
}
