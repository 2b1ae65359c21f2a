package clusterdns

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/nodes"
)

func setTemplate(deploy *appsv1.Deployment, original appsv1.DeploymentSpec, want coredns.Settings, mark string) {
	template := &deploy.Spec.Template
	template.Annotations = nodes.With(template.Annotations, settingsMark, mark)
	delete(template.Annotations, coredns.DoNotDisrupt)
	if want.DoNotDisrupt {
		template.Annotations[coredns.DoNotDisrupt] = "true"
	}
	deploy.Spec.Replicas = ptr.To(int32(want.Replicas))
	setRollout(deploy, original, want.Rollout)

	spec := &template.Spec
	spec.TerminationGracePeriodSeconds = ptr.To(int64(want.GracePeriod.D().Seconds()))
	delete(spec.NodeSelector, nodes.CapacityLabel)
	delete(spec.NodeSelector, coredns.LaunchedKey)
	delete(spec.NodeSelector, nowhere)
	spec.Tolerations = slices.Clone(original.Template.Spec.Tolerations)
	for _, t := range want.Tolerations {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect), TolerationSeconds: t.TolerationSeconds,
		})
	}
	setSpread(spec, want)
	switch want.Placement {
	case coredns.OnOnDemand, coredns.OnSpot:
		spec.NodeSelector = nodes.With(spec.NodeSelector, nodes.CapacityLabel, string(want.Placement))
	case coredns.Launched:
		spec.NodeSelector = nodes.With(spec.NodeSelector, coredns.LaunchedKey, "true")
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: coredns.LaunchedKey, Operator: corev1.TolerationOpExists})
	}
}

// setRollout sets how the Deployment replaces its pods: as it did originally, but for what is wanted.
func setRollout(deploy *appsv1.Deployment, original appsv1.DeploymentSpec, want coredns.Rollout) {
	deploy.Spec.Strategy = *original.Strategy.DeepCopy()
	deploy.Spec.MinReadySeconds = original.MinReadySeconds
	if want.MinReady != 0 {
		deploy.Spec.MinReadySeconds = int32(want.MinReady.D().Seconds())
	}
	if want.MaxUnavailable == "" && want.MaxSurge == "" {
		return
	}
	rolling := ptr.Deref(deploy.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
	rolling.MaxUnavailable = cmp.Or(amountOf(want.MaxUnavailable), rolling.MaxUnavailable)
	rolling.MaxSurge = cmp.Or(amountOf(want.MaxSurge), rolling.MaxSurge)
	deploy.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &rolling}
}

// setSpread sets which pods of CoreDNS may share a node: what is wanted or, if nothing is, what the placement needs.
func setSpread(spec *corev1.PodSpec, want coredns.Settings) {
	self := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: service}}
	oneNode := want.Placement == coredns.OnOnDemand || want.ShareNodes
	apart := want.AntiAffinity
	switch {
	case oneNode:
		apart = coredns.NoAntiAffinity
	case apart == "" && want.Placement == coredns.Anywhere:
		apart = coredns.PreferredAntiAffinity
	case apart == "":
		apart = coredns.RequiredAntiAffinity
	}
	term := corev1.PodAffinityTerm{LabelSelector: self, TopologyKey: corev1.LabelHostname}
	spec.Affinity, spec.TopologySpreadConstraints = nil, nil
	switch apart {
	case coredns.PreferredAntiAffinity:
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term}},
		}}
	case coredns.RequiredAntiAffinity:
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
	}
	over := func(key string, unsatisfiable corev1.UnsatisfiableConstraintAction) {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: unsatisfiable, LabelSelector: self,
		})
	}
	if want.Placement == coredns.Spread {
		over(nodes.CapacityLabel, corev1.DoNotSchedule)
	}
	for _, t := range want.TopologySpread {
		switch {
		case t.By != coredns.ByHost:
			over(corev1.LabelTopologyZone, corev1.UnsatisfiableConstraintAction(t.WhenUnsatisfiable))
		case !oneNode:
			over(corev1.LabelHostname, corev1.UnsatisfiableConstraintAction(t.WhenUnsatisfiable))
		}
	}
}

// setLife gives the container of CoreDNS its probes and its preStop hook. The probes request what the Corefile serves.
func setLife(c, original *corev1.Container, want coredns.Settings, corefile coredns.Corefile) {
	for _, of := range []struct {
		now, before *corev1.Probe
		serves      []coredns.Address
	}{{c.ReadinessProbe, original.ReadinessProbe, corefile.Ready}, {c.LivenessProbe, original.LivenessProbe, corefile.Health}} {
		if of.now == nil || of.now.HTTPGet == nil || of.before == nil || of.before.HTTPGet == nil {
			continue
		}
		of.now.HTTPGet.Port = of.before.HTTPGet.Port
		if want.Corefile != "" && len(of.serves) > 0 {
			of.now.HTTPGet.Port = intstr.Parse(of.serves[0].Port)
		}
	}
	if c.ReadinessProbe != nil {
		c.ReadinessProbe.PeriodSeconds = int32(want.Readiness.Period.D().Seconds())
		c.ReadinessProbe.FailureThreshold = int32(want.Readiness.FailureThreshold)
		if before := original.ReadinessProbe; before != nil {
			c.ReadinessProbe.TimeoutSeconds, c.ReadinessProbe.InitialDelaySeconds = before.TimeoutSeconds, before.InitialDelaySeconds
		}
		if t := want.Readiness.Timeout; t != 0 {
			c.ReadinessProbe.TimeoutSeconds = int32(t.D().Seconds())
		}
		if d := want.Readiness.InitialDelay; d != 0 {
			c.ReadinessProbe.InitialDelaySeconds = int32(d.D().Seconds())
		}
	}
	c.Lifecycle = original.Lifecycle
	if want.PreStop != 0 {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(want.PreStop.D().Seconds())}}}
	}
}

// setRequests gives the container of CoreDNS the resources that it had originally, and those
// that are wanted.
func setRequests(c, original *corev1.Container, want coredns.Settings) {
	wanted := corev1.ResourceList{}
	if want.Memory != "" {
		wanted[corev1.ResourceMemory] = resource.MustParse(want.Memory) // the scenario's loader checked it
	}
	if want.PodENI {
		wanted[coredns.PodENI] = resource.MustParse("1")
	}
	c.Resources = *original.Resources.DeepCopy()
	for name, quantity := range wanted {
		c.Resources.Requests = nodes.With(c.Resources.Requests, name, quantity)
		c.Resources.Limits = nodes.With(c.Resources.Limits, name, quantity)
	}
}
