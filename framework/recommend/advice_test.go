package recommend

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

const capacityType = "karpenter.sh/capacity-type"

const corefileText = ".:53 {\n    errors\n    health {\n       lameduck 5s\n    }\n    ready\n    cache 30\n}\n"

// sound is a DNS that follows every rule, unless change breaks some.
func sound(change ...func(*DNS)) DNS {
	labels := map[string]string{"k8s-app": "kube-dns"}
	d := DNS{
		Corefile: corefileText, ConfigMap: "kube-system/coredns",
		Workload: Workload{
			ObjectMeta: metav1.ObjectMeta{Name: "coredns", Namespace: "kube-system"}, Kind: Deployment,
			Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To(int64(30)),
					Volumes:                       []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"}}}}},
					Containers: []corev1.Container{{
						Name: "coredns", VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns"}},
						ReadinessProbe: &corev1.Probe{
							PeriodSeconds: 1, FailureThreshold: 3,
							ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8181)}},
						},
					}},
				},
			},
		},
		Budgets: []policyv1.PodDisruptionBudget{budget("coredns", ptr.To(intstr.FromInt32(1)), nil)},
		Pods:    []Pod{{Name: "coredns-a", Node: "node-1", Capacity: Spot, Label: capacityType}, {Name: "coredns-b", Node: "node-2", Capacity: Lasting}},
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

// asDeployment is the workload as the API server has it.
func asDeployment(w Workload) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: w.ObjectMeta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(w.Replicas)), Selector: w.Selector, Template: w.Template}}
}

func asAddOn(d *DNS) { d.Platform = EKSAddOn }

func budget(name string, maxUnavailable, minAvailable *intstr.IntOrString) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: maxUnavailable, MinAvailable: minAvailable,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
		},
	}
}

func lameduck(d string) func(*DNS) {
	return func(dns *DNS) { dns.Corefile = strings.Replace(corefileText, "lameduck 5s", "lameduck "+d, 1) }
}

func corefileOf(text string) func(*DNS) { return func(dns *DNS) { dns.Corefile = text } }

func readiness(period, threshold int32) func(*DNS) {
	return func(d *DNS) { d.readiness().PeriodSeconds, d.readiness().FailureThreshold = period, threshold }
}

func grace(seconds int64) func(*DNS) {
	return func(d *DNS) { d.Workload.Template.Spec.TerminationGracePeriodSeconds = ptr.To(seconds) }
}

func budgets(of ...policyv1.PodDisruptionBudget) func(*DNS) {
	return func(d *DNS) { d.Budgets = of }
}

func pods(capacities ...Capacity) func(*DNS) {
	return func(d *DNS) {
		d.Pods = nil
		for i, c := range capacities {
			label := ""
			if c == Spot {
				label = capacityType
			}
			d.Pods = append(d.Pods, Pod{Name: "coredns-" + string(rune('a'+i)), Node: "node-" + string(rune('1'+i)), Capacity: c, Label: label})
		}
	}
}

// rulesOf are the findings, and their rules: with ? after those that are unknown.
func rulesOf(t *testing.T, d DNS) (rules []string, found []Finding) {
	t.Helper()
	a, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Findings {
		if f.Got == "" || f.Why == "" || f.Fix == "" || !strings.HasPrefix(f.Source, "https://") {
			t.Errorf("%s lacks a part: %+v", f.Rule, f)
		}
		if placeholder.MatchString(f.Got + f.Why + f.Fix) {
			t.Errorf("%s has a placeholder without its value: %+v", f.Rule, f)
		}
		if f.Unknown {
			f.Rule += "?"
		}
		rules = append(rules, f.Rule)
	}
	return rules, a.Findings
}

// placeholder is one of rules.yaml, or what fmt writes for one of which the value is missing or has another type.
var placeholder = regexp.MustCompile(`%[sd!]`)

func TestLint(t *testing.T) {
	asks := func(path string) func(*DNS) { return func(d *DNS) { d.readiness().HTTPGet.Path = path } }
	replicas := func(n int32) func(*DNS) { return func(d *DNS) { d.Workload.Replicas = int(n) } }
	percent := func(p string) *intstr.IntOrString { return ptr.To(intstr.FromString(p)) }
	number := func(n int32) *intstr.IntOrString { return ptr.To(intstr.FromInt32(n)) }
	named := func(d *DNS, port int32) {
		d.readiness().HTTPGet.Port = intstr.FromString("readiness")
		d.container().Ports = []corev1.ContainerPort{{Name: "readiness", ContainerPort: port}}
	}
	alive := func(port int32) func(*DNS) {
		return func(d *DNS) {
			d.container().LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(port)}}}
		}
	}
	preStop := func(command ...string) func(*DNS) {
		return func(d *DNS) {
			d.container().Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}}
		}
	}
	nodes := func(nodeAndZone ...string) func(*DNS) {
		return func(d *DNS) {
			for i := range d.Pods {
				d.Pods[i].Node, d.Pods[i].Zone = nodeAndZone[2*i], nodeAndZone[2*i+1]
			}
		}
	}
	tolerating := func(of ...corev1.Toleration) func(*DNS) {
		return func(d *DNS) { d.Workload.Template.Spec.Tolerations, d.Pods[0].Pool = of, "general" }
	}
	unhealthy := budget("coredns", number(1), nil)
	unhealthy.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 2, CurrentHealthy: 1, DesiredHealthy: 1}
	settled := unhealthy
	settled.Status.DisruptionsAllowed = 1
	foreign := budget("app", number(0), nil)
	foreign.Spec.Selector.MatchLabels["k8s-app"] = "app"
	for name, c := range map[string]struct {
		dns  DNS
		want []string // rules, ? after those that are unknown
	}{
		"sound": {sound(), nil},

		"as kubeadm sets it":                              {sound(readiness(10, 3)), []string{"lameduck-outlasts-readiness"}},
		"as the EKS best-practice guide once recommended": {sound(lameduck("30s"), readiness(10, 3)), []string{"lameduck-within-grace-period", "lameduck-outlasts-readiness"}},
		"as OpenShift set it":                             {sound(lameduck("60s"), readiness(3, 3), grace(120)), nil},
		"just long enough for readiness":                  {sound(readiness(3, 1)), nil},
		"a second too short for readiness":                {sound(readiness(4, 1)), []string{"lameduck-outlasts-readiness"}},
		"just short enough for the grace period":          {sound(lameduck("19s")), nil},
		"no time for the end within grace":                {sound(lameduck("20s")), []string{"lameduck-within-grace-period"}},
		"two lameducks add up":                            {sound(corefileOf(corefileText + "b:54 {\n health :8081 {\n lameduck 15s\n }\n}\n")), []string{"lameduck-within-grace-period"}},
		"no lameduck":                                     {sound(corefileOf(". {\n health\n ready\n}\n")), []string{"lameduck"}},
		"lameduck 0 s":                                    {sound(lameduck("0s")), []string{"lameduck"}},
		"no health plugin":                                {sound(corefileOf(". {\n ready\n}\n")), []string{"health-plugin"}},
		"no health plugin, but an import":                 {sound(corefileOf(". {\n ready\n import custom/*\n}\n")), []string{"health-plugin?"}},
		"a lameduck, but an import":                       {sound(corefileOf(". {\n health {\n lameduck 5s\n }\n ready\n import custom/*\n}\n")), []string{"lameduck?"}},
		"no ready plugin":                                 {sound(corefileOf(". {\n health {\n lameduck 5s\n }\n}\n")), []string{"ready-plugin"}},
		"no ready plugin, but an import":                  {sound(corefileOf(". {\n health {\n lameduck 5s\n }\n import custom/*\n}\n")), []string{"lameduck?", "ready-plugin?"}},

		"readiness on /health":          {sound(asks("/health")), []string{"readiness-asks-ready"}},
		"readiness by TCP":              {sound(func(d *DNS) { d.readiness().HTTPGet = nil }), []string{"readiness-asks-ready"}},
		"no readiness probe":            {sound(lameduck("15s"), grace(60), func(d *DNS) { d.container().ReadinessProbe = nil }), []string{"readiness-probe"}},
		"Kubernetes' defaults count":    {sound(readiness(0, 0)), []string{"lameduck-outlasts-readiness"}},
		"the default grace period does": {sound(lameduck("20s"), func(d *DNS) { d.Workload.Template.Spec.TerminationGracePeriodSeconds = nil }), []string{"lameduck-within-grace-period"}},

		"readiness on another port":          {sound(corefileOf(strings.Replace(corefileText, "ready", "ready :8190", 1))), []string{"readiness-port"}},
		"readiness on a port by its name":    {sound(func(d *DNS) { named(d, 8181) }), nil},
		"a name of another port":             {sound(func(d *DNS) { named(d, 8080) }), []string{"readiness-port"}},
		"a name that is not declared":        {sound(func(d *DNS) { d.readiness().HTTPGet.Port = intstr.FromString("readiness") }), []string{"readiness-port?"}},
		"ready for the pod itself":           {sound(corefileOf(strings.Replace(corefileText, "ready", "ready localhost:8181", 1))), []string{"readiness-port"}},
		"a port of the environment":          {sound(corefileOf(strings.Replace(corefileText, "ready", "ready :{$PORT}", 1))), []string{"readiness-port?"}},
		"liveness where nothing listens":     {sound(alive(9090)), []string{"liveness-port"}},
		"liveness where health listens":      {sound(alive(8080)), nil},
		"health and ready on one port":       {sound(corefileOf(strings.Replace(corefileText, "health", "health :8181", 1))), []string{"health-and-ready-ports"}},
		"preStop within the grace period":    {sound(preStop("sleep", "14")), nil},
		"preStop fills the grace period":     {sound(preStop("sleep", "15")), []string{"lameduck-within-grace-period"}},
		"preStop by a shell":                 {sound(preStop("/bin/sh", "-c", "sleep 15")), []string{"lameduck-within-grace-period"}},
		"preStop by a shell that does more":  {sound(preStop("/bin/sh", "-ec", "sleep 15; true")), []string{"lameduck-within-grace-period"}},
		"preStop by a shell's exec":          {sound(preStop("sh", "-c", "exec sleep 14")), nil},
		"preStop that may run longer":        {sound(preStop("sh", "-c", "sleep 5 && /drain.sh")), []string{"lameduck-within-grace-period?"}},
		"preStop of a variable":              {sound(preStop("sh", "-c", "sleep ${DRAIN:-5}")), []string{"lameduck-within-grace-period?"}},
		"a preStop hook of unknown duration": {sound(preStop("/drain.sh")), []string{"lameduck-within-grace-period?"}},

		"all on one node":             {sound(nodes("a", "z1", "a", "z1"), sized(2, 8)), []string{"not-all-on-one-node"}},
		"on the only node":            {sound(nodes("a", "z1", "a", "z1"), sized(1, 8)), nil},
		"all in one zone":             {sound(nodes("a", "z1", "b", "z1"), func(d *DNS) { d.Zones = 2 }), []string{"not-all-in-one-zone"}},
		"in the only zone":            {sound(nodes("a", "z1", "b", "z1"), func(d *DNS) { d.Zones = 1 }), nil},
		"in two zones":                {sound(nodes("a", "z1", "b", "z2"), func(d *DNS) { d.Zones = 2 }), nil},
		"tolerates Karpenter's taint": {sound(tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})), []string{"dns-drained-at-a-notice"}},
		"tolerates others":            {sound(tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, corev1.Toleration{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists})), nil},

		"one replica":                  {sound(replicas(1), pods(Lasting), budgets(budget("b", number(1), nil))), []string{"replicas"}},
		"all on spot":                  {sound(pods(Spot, Spot)), []string{"not-all-on-spot"}},
		"unlabelled nodes":             {sound(pods(Spot, UnknownCapacity)), []string{"not-all-on-spot?"}},
		"unlabelled, but one is known": {sound(pods(Lasting, UnknownCapacity)), nil},
		"no pods":                      {sound(pods()), []string{"not-all-on-spot?"}},

		"no budget":                      {sound(budgets()), []string{"budget"}},
		"a budget for others":            {sound(budgets(foreign)), []string{"budget"}},
		"two budgets":                    {sound(budgets(budget("a", number(1), nil), budget("b", number(1), nil))), []string{"one-budget"}},
		"maxUnavailable 0":               {sound(budgets(budget("b", number(0), nil))), []string{"budget-lets-one-go"}},
		"minAvailable all":               {sound(budgets(budget("b", nil, number(2)))), []string{"budget-lets-one-go"}},
		"minAvailable 1":                 {sound(budgets(budget("b", nil, number(1)))), nil},
		"minAvailable 51% of 2 is 2":     {sound(budgets(budget("b", nil, percent("51%")))), []string{"budget-lets-one-go"}},
		"maxUnavailable 1% of 2 is 1":    {sound(budgets(budget("b", percent("1%"), nil))), nil},
		"maxUnavailable 0%":              {sound(budgets(budget("b", percent("0%"), nil))), []string{"budget-lets-one-go"}},
		"a percentage that is none":      {sound(budgets(budget("b", percent("half"), nil))), []string{"budget-lets-one-go?"}},
		"a budget without a value":       {sound(budgets(budget("b", nil, nil))), nil},
		"unhealthy pods use it up":       {sound(budgets(unhealthy)), []string{"budget-lets-one-go"}},
		"healthy pods leave it be":       {sound(budgets(settled)), nil},
		"one replica and minAvailable 1": {sound(replicas(1), pods(Lasting), budgets(budget("b", nil, number(1)))), []string{"replicas", "budget-lets-one-go"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, found := rulesOf(t, c.dns); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v\n%+v", got, c.want, found)
			}
		})
	}
	refused := sound(lameduck("soon"), budgets())
	if rules, found := rulesOf(t, refused); !slices.Equal(rules, []string{"next-pod-starts", "budget"}) || !strings.Contains(found[0].Got, `ConfigMap kube-system/coredns: line 4: lameduck "soon"`) {
		t.Errorf("a lameduck that is no duration: %+v", found)
	}
	if a, err := New(refused); err != nil || a.Patch.Corefile+a.Patch.Deployment != "" || a.Patch.Budget == "" {
		t.Errorf("with a Corefile that CoreDNS refuses, only a budget may be added: %+v, %v", a.Patch, err)
	}
}

// settings have their times in seconds.
func settings(lameduck, period, threshold, grace, replicas int) coredns.Settings {
	seconds := func(n int) strict.Duration { return strict.Duration(time.Duration(n) * time.Second) }
	return coredns.Settings{
		Lameduck: seconds(lameduck), Readiness: coredns.Readiness{Period: seconds(period), FailureThreshold: threshold},
		GracePeriod: seconds(grace), Replicas: replicas,
	}
}

func TestProposalsKeepTheRulesAndChangeLittle(t *testing.T) {
	s := settings
	for name, c := range map[string]struct{ given, want coredns.Settings }{
		"what keeps them stays":                  {s(5, 1, 1, 30, 2), s(5, 1, 1, 30, 2)},
		"a longer lameduck, where it fits":       {s(5, 10, 3, 60, 3), s(32, 10, 3, 60, 3)},
		"else a quicker probe":                   {s(5, 10, 3, 30, 2), s(5, 1, 3, 30, 2)},
		"no longer than kubeadm's":               {s(0, 1, 1, 30, 2), s(5, 1, 1, 30, 2)},
		"a shorter lameduck than the guide's":    {s(30, 10, 3, 30, 2), s(5, 1, 3, 30, 2)},
		"a longer grace period, last of all":     {s(5, 1, 30, 30, 2), s(32, 1, 30, 47, 2)},
		"a second replica":                       {s(5, 1, 1, 30, 1), s(5, 1, 1, 30, 2)},
		"a grace period that kills at once goes": {s(5, 1, 1, 1, 2), s(5, 1, 1, 20, 2)},
	} {
		got := sound().propose(c.given)
		if !got.Equal(c.want) {
			t.Errorf("%s: %+v became %+v, want %+v", name, c.given, got, c.want)
		}
		if got.Lameduck.D()+ShutdownTime >= got.GracePeriod.D() || got.Lameduck.D() < got.Readiness.Unready()+ProxySync {
			t.Errorf("%s: %+v breaks a rule", name, got)
		}
	}
}

func TestMeasuredSettingsArePatched(t *testing.T) {
	a, err := New(sound(lameduck("1s"), readiness(10, 3)))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		measured, want coredns.Settings // of the measured ones, lameduck and readiness count
		evidence       string
	}{
		"the grace period is enough": {settings(5, 1, 1, 99, 9), settings(5, 1, 1, 30, 2), "nothing lost"},
		"it is not":                  {settings(35, 10, 1, 99, 9), settings(35, 10, 1, 50, 2), "nothing lost"},
		"less than the rule":         {settings(5, 10, 1, 99, 9), settings(5, 10, 1, 30, 2), "nothing lost; the rule lameduck-outlasts-readiness still requires at least 12s"},
	} {
		got, err := a.Measured(c.measured, "nothing lost")
		if err != nil || !got.Proposed.Equal(c.want) || !strings.HasPrefix(got.Evidence, c.evidence) || (got.Evidence != c.evidence) != (c.measured.Lameduck < c.measured.Readiness.Period) {
			t.Errorf("%s: %v\n%+v, %q\nwant %+v, %q", name, err, got.Proposed, got.Evidence, c.want, c.evidence)
		}
		if !strings.Contains(got.Patch.Corefile, "lameduck "+c.want.Lameduck.D().String()) || !strings.Contains(got.Patch.Deployment, "failureThreshold: 1") {
			t.Errorf("%s: patch %+v", name, got.Patch)
		}
	}
}

func TestPatch(t *testing.T) {
	none := func(d *DNS) { d.container().ReadinessProbe = nil }
	const preference = "          - preference:\n              matchExpressions:\n              - key: karpenter.sh/capacity-type\n                operator: NotIn\n                values:\n                - spot\n            weight: 100\n"
	for name, c := range map[string]struct {
		dns  DNS
		want Patch
	}{
		"nothing to change": {sound(), Patch{}},
		"kubeadm's": {sound(readiness(10, 3)), Patch{
			Deployment: "spec:\n  template:\n    spec:\n      containers:\n      - name: coredns\n        readinessProbe:\n          periodSeconds: 1\n",
		}},
		"lameduck alone":        {sound(lameduck("1s")), Patch{Corefile: corefileText}},
		"lameduck of an add-on": {sound(lameduck("1s"), asAddOn), Patch{EKSAddOn: `{"corefile":".:53 {\n    errors\n    health {\n       lameduck 5s\n    }\n    ready\n    cache 30\n}\n"}`}},
		"no health plugin":      {sound(corefileOf(". {\n ready\n}\n")), Patch{Corefile: ". {\n health {\n     lameduck 5s\n }\n ready\n}\n"}},
		"another path": {sound(func(d *DNS) { d.readiness().HTTPGet.Path = "/health" }), Patch{
			Deployment: "spec:\n  template:\n    spec:\n      containers:\n      - name: coredns\n        readinessProbe:\n          httpGet:\n            path: /ready\n            port: 8181\n            scheme: HTTP\n",
		}},
		"the probe stays where nothing serves /ready yet": {sound(corefileOf(". {\n health {\n lameduck 5s\n }\n}\n"), func(d *DNS) { d.readiness().HTTPGet.Path = "/health" }), Patch{Corefile: ". {\n ready\n health {\n lameduck 5s\n }\n}\n"}},
		"the port where ready listens": {sound(corefileOf(strings.Replace(corefileText, "ready", "ready :8190", 1)), func(d *DNS) { d.readiness().HTTPGet.Path = "/health" }), Patch{
			Deployment: "spec:\n  template:\n    spec:\n      containers:\n      - name: coredns\n        readinessProbe:\n          httpGet:\n            path: /ready\n            port: 8190\n            scheme: HTTP\n",
		}},
		"another port than ready's": {sound(corefileOf(strings.Replace(corefileText, "ready", "ready 0.0.0.0:8190", 1)), func(d *DNS) { d.readiness().HTTPGet.Host = "1.2.3.4" }), Patch{
			Deployment: "spec:\n  template:\n    spec:\n      containers:\n      - name: coredns\n        readinessProbe:\n          httpGet:\n            host: null\n            path: /ready\n            port: 8190\n            scheme: HTTP\n",
		}},
		"no probe of a port that is unknown":   {sound(corefileOf(strings.Replace(corefileText, "ready", "ready :{$PORT}", 1)), none), Patch{}},
		"nor of one that only the pod reaches": {sound(corefileOf(strings.Replace(corefileText, "ready", "ready localhost:8181", 1)), none), Patch{}},
		"nor of one that health has too":       {sound(corefileOf(strings.Replace(corefileText, "health", "health :8181", 1)), none), Patch{}},
		"a probe where there is none": {sound(none, grace(120), lameduck("32s")), Patch{
			Deployment: "spec:\n  template:\n    spec:\n      containers:\n      - name: coredns\n        readinessProbe:\n          failureThreshold: 3\n          httpGet:\n            path: /ready\n            port: 8181\n            scheme: HTTP\n          periodSeconds: 1\n",
		}},
		"no budget of an add-on": {sound(budgets(), asAddOn), Patch{
			Budget:   "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: coredns\n  namespace: kube-system\nspec:\n  maxUnavailable: 1\n  selector:\n    matchLabels:\n      k8s-app: kube-dns\n",
			EKSAddOn: `{"podDisruptionBudget":{"enabled":true,"maxUnavailable":1}}`,
		}},
		"a budget that blocks stays": {sound(budgets(budget("b", ptr.To(intstr.FromInt32(0)), nil))), Patch{}},
		"nodes of unknown capacity":  {sound(pods(Spot, UnknownCapacity)), Patch{}},
		"all on spot": {sound(pods(Spot, Spot)), Patch{
			Deployment: "spec:\n  template:\n    spec:\n      affinity:\n        nodeAffinity:\n          preferredDuringSchedulingIgnoredDuringExecution:\n" + preference,
		}},
		"all on spot, of an add-on with preferences of its own": {sound(pods(Spot, Spot), asAddOn, func(d *DNS) {
			d.Workload.Template.Spec.Affinity = &corev1.Affinity{
				NodeAffinity:    &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}},
				PodAntiAffinity: &corev1.PodAntiAffinity{},
			}
		}), Patch{
			EKSAddOn: `{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{}},{"weight":100,"preference":{"matchExpressions":[{"key":"karpenter.sh/capacity-type","operator":"NotIn","values":["spot"]}]}}]},"podAntiAffinity":{}}}`,
		}},
		"replicas":              {sound(func(d *DNS) { d.Workload.Replicas = 1 }), Patch{Deployment: "spec:\n  replicas: 2\n"}},
		"replicas of an add-on": {sound(asAddOn, func(d *DNS) { d.Workload.Replicas = 1 }), Patch{EKSAddOn: `{"autoScaling":{"enabled":true,"maxReplicas":10,"minReplicas":2}}`}},
		"replicas of an autoscaler": {sound(func(d *DNS) {
			d.Workload.Replicas, d.Workload.ManagedFields = 1, []metav1.ManagedFieldsEntry{owned("kube-controller-manager", `{"f:spec":{"f:replicas":{}}}`)}
		}), Patch{}},
		"all on one node": {sound(sized(2, 8), func(d *DNS) { d.Pods[0].Node = d.Pods[1].Node }), Patch{
			Deployment: "spec:\n  template:\n    spec:\n      topologySpreadConstraints:\n      - labelSelector:\n          matchLabels:\n            k8s-app: kube-dns\n        maxSkew: 1\n        topologyKey: kubernetes.io/hostname\n        whenUnsatisfiable: ScheduleAnyway\n",
		}},
		"preStop is added to the grace period": {sound(grace(20), func(d *DNS) {
			d.container().Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 25}}}
		}), Patch{Deployment: "spec:\n  template:\n    spec:\n      terminationGracePeriodSeconds: 45\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := New(c.dns)
			if err != nil || got.Patch != c.want {
				t.Errorf("got %v\n%+v\nwant\n%+v", err, got.Patch, c.want)
			}
		})
	}
}

func TestAdviceForPeople(t *testing.T) {
	for name, c := range map[string]struct {
		dns       DNS
		want, not []string
	}{
		"sound": {sound(), []string{"kube-system/coredns: lameduck 5s, readiness 1s x 3, grace period 30s, replicas 2\nnothing to warn of\n"}, []string{"proposed", "#"}},
		"kubeadm's": {
			sound(readiness(10, 3), budgets(), pods(Spot, UnknownCapacity)),
			[]string{
				"warning lameduck-outlasts-readiness: lameduck 5s, but a terminating pod stays Ready for up to 30s (10s x 3)", "  source: https://github.com/kubernetes/kubernetes/issues/129617",
				"warning budget: no PodDisruptionBudget", "unknown not-all-on-spot: no label shows the capacity of node-2",
				"proposed: lameduck 5s, readiness 1s x 3", "# Deployment: kubectl -n kube-system patch deployment coredns --patch-file FILE\nspec:\n",
				"# PodDisruptionBudget: kubectl apply -f FILE\n",
			},
			[]string{"Corefile for", "affinity", "EKS"},
		},
		"no lameduck":               {sound(lameduck("0s")), []string{"# complete Corefile for ConfigMap kube-system/coredns\n.:53 {"}, []string{"# Deployment", "EKS"}},
		"an add-on":                 {sound(lameduck("0s"), budgets(), readiness(10, 3), asAddOn), []string{"platform: EKS add-on: ", "# EKS add-on coredns", "not if the EKS add-on creates one", "the add-on has no such value: patch again"}, []string{"complete Corefile"}},
		"a Corefile without health": {sound(corefileOf(". {\n ready\n}\n")), []string{"the cluster's zone:\n          health {\n              lameduck 5s\n          }\n"}, []string{"{ lameduck"}},
		"an unknown lameduck":       {sound(corefileOf(". {\n health {\n lameduck {$X}\n }\n ready\n}\n")), []string{"lameduck unknown, readiness", "unknown lameduck: the lameduck is unknown: line 3"}, []string{"complete Corefile"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := New(c.dns)
			var b strings.Builder
			if err = errors.Join(err, a.WriteText(&b)); err != nil {
				t.Fatal(err)
			}
			for _, part := range c.want {
				if !strings.Contains(b.String(), part) {
					t.Errorf("%q is not in:\n%s", part, b.String())
				}
			}
			for _, part := range c.not {
				if strings.Contains(b.String(), part) {
					t.Errorf("%q is in:\n%s", part, b.String())
				}
			}
			text, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			var keys struct{ Now, Proposed map[string]any }
			if err := json.Unmarshal(text, &keys); err != nil {
				t.Fatal(err)
			}
			want := []string{"failureThreshold", "gracePeriod", "lameduck", "readinessPeriod", "replicas"}
			for _, settings := range []map[string]any{keys.Now, keys.Proposed} {
				if got := slices.Sorted(maps.Keys(settings)); !slices.Equal(got, want) || settings["gracePeriod"] != "30s" {
					t.Errorf("as JSON: %v, want the keys %v", settings, want)
				}
			}
		})
	}
}

func TestCapacityIsReadOffTheLabels(t *testing.T) {
	for want, of := range map[Capacity][]map[string]string{
		Spot: {
			{"karpenter.sh/capacity-type": "spot"},
			{"eks.amazonaws.com/capacityType": "SPOT"},
			{"cloud.google.com/gke-spot": "true"},
			{"machine.openshift.io/interruptible-instance": ""},
			{"scheduling.cast.ai/spot": "true"},
			{"lifecycle": "Ec2Spot"},
			{"kubernetes.azure.com/scalesetpriority": "spot", "kubernetes.azure.com/cluster": "mc"},
			{"node-role.kubernetes.io/control-plane": "", "karpenter.sh/capacity-type": "spot"},
			{"karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/lifecycle": "spot"},
		},
		Lasting: {
			{"eks.amazonaws.com/compute-type": "fargate"},
			{"node-role.kubernetes.io/control-plane": ""},
			{"kubernetes.azure.com/cluster": "mc"},
			{"cloud.google.com/gke-nodepool": "a"},
			{"karpenter.sh/capacity-type": "on-demand"},
			{"karpenter.sh/capacity-type": "reserved"},
			{"eks.amazonaws.com/capacityType": "ON_DEMAND"},
		},
		UnknownCapacity: {nil, {"kubernetes.io/hostname": "spot"}},
	} {
		for _, labels := range of {
			got, label := CapacityOf(labels)
			if got != want || (label != "") != (want == Spot) || label != "" && labels[label] == "on-demand" {
				t.Errorf("%v is %s by %q, want %s", labels, got, label, want)
			}
		}
	}
}

// reads are the requests of a client.
type reads struct {
	*Manifests
	methods, paths []string
}

func (r *reads) RoundTrip(request *http.Request) (*http.Response, error) {
	r.methods, r.paths = append(r.methods, request.Method), append(r.paths, request.URL.Path)
	return r.Manifests.RoundTrip(request)
}

func TestReadOnlyReads(t *testing.T) {
	pod := func(name, node, rest string) string {
		return fmt.Sprintf("\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {k8s-app: kube-dns}%s}\nspec: {nodeName: %s}\n", name, rest, node)
	}
	of := &Manifests{whole: true}
	text := strings.ReplaceAll(file(t, "base.yaml"), "kind: Pod\n", "kind: PodTemplate\n") + "\n---\n" + node("node-1", "karpenter.sh/capacity-type: spot") +
		pod("a", "node-1", "") + pod("b", "node-gone", "") + pod("waits", `""`, "") + pod("ends", "node-1", ", deletionTimestamp: '2026-01-01T00:00:00Z'") +
		strings.Replace(pod("app", "node-1", ""), "labels: {k8s-app: kube-dns}", "labels: {}", 1)
	if err := of.add("objects.yaml", []byte(text), "kube-system"); err != nil {
		t.Fatal(err)
	}
	asked := &reads{Manifests: of}
	config := of.Config()
	config.Transport = asked
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, none := cluster(t)
	got, err := Read(t.Context(), client, none, "kube-system", "coredns")
	if err != nil {
		t.Fatal(err)
	}
	if want := []Pod{{Name: "a", Node: "node-1", Capacity: Spot, Label: capacityType}, {Name: "b", Node: "node-gone", Capacity: UnknownCapacity}}; !slices.Equal(got.Pods, want) || got.Corefile == "" || len(got.Budgets) != 1 {
		t.Errorf("read %+v, want pods %+v", got, want)
	}
	if slices.ContainsFunc(asked.methods, func(method string) bool { return method != http.MethodGet }) || !slices.Contains(asked.paths, "/api/v1/nodes/node-1/proxy/configz") {
		t.Errorf("%v of %v", asked.methods, asked.paths)
	}
	if _, err := Read(t.Context(), client, none, "kube-system", "kube-dns"); err == nil || !strings.Contains(err.Error(), "use --namespace and --deployment") {
		t.Errorf("another name: %v", err)
	}
}
