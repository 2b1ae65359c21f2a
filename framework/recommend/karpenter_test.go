package recommend

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// soundKarpenter follows every rule, unless change breaks some.
func soundKarpenter(change ...func(*DNS)) DNS {
	return sound(append([]func(*DNS){func(d *DNS) {
		labels := map[string]string{"app.kubernetes.io/name": "karpenter"}
		d.Karpenter = Karpenter{
			Installed: true,
			Workload: &Workload{
				ObjectMeta: metav1.ObjectMeta{Name: "karpenter", Namespace: "karpenter", Labels: labels},
				Kind:       Deployment, Replicas: 2,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "controller", Image: "registry.example.com:5000/karpenter/controller:1.14.1@sha256:00",
					Env: []corev1.EnvVar{{Name: "INTERRUPTION_QUEUE", Value: "production"}},
				}}}},
			},
			Pods:  []Pod{{Name: "karpenter-a", Node: "system-1"}},
			Pools: []Pool{{Name: "spot", Consolidates: true, Requirements: []corev1.NodeSelectorRequirement{in(capacityType, "spot")}}},
		}
		d.Pods[0].Pool = "spot"
	}}, change...)...)
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func requires(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func TestLintKarpenter(t *testing.T) {
	controller := func(change func(*corev1.Container)) func(*DNS) {
		return func(d *DNS) { change(d.Karpenter.container()) }
	}
	version := func(v string) func(*DNS) {
		return controller(func(c *corev1.Container) { c.Image = "controller:" + v })
	}
	noQueue := controller(func(c *corev1.Container) { c.Env = nil })
	args := func(args ...string) func(*DNS) { return controller(func(c *corev1.Container) { c.Args = args }) }
	formerQueue := func(d *DNS) { d.Karpenter.FormerQueue = "production" }
	provisioners := func(d *DNS) { d.Karpenter.Removed = removedKinds()[:1] }
	ownNode := func(d *DNS) { d.Karpenter.Pods[0].Pool = "spot" }
	otherToo := func(d *DNS) { d.Karpenter.Pods = append(d.Karpenter.Pods, Pod{Name: "karpenter-b", Node: "system-2"}) }
	allPooled := func(d *DNS) { d.Pods[1].Pool = "spot" }
	kept := func(d *DNS) { d.Pods[0].Kept = true }
	empty := func(d *DNS) { d.Karpenter.Pools[0].Consolidates = false }
	policy := func(p corev1.DNSPolicy, host bool) func(*DNS) {
		return func(d *DNS) {
			d.Karpenter.Workload.Template.Spec.DNSPolicy = p
			d.Karpenter.Workload.Template.Spec.HostNetwork = host
		}
	}
	next := func(h TerminationHandler) func(*DNS) {
		return func(d *DNS) { d.Karpenter.Others = append(d.Karpenter.Others, h) }
	}
	second := func(p Pool) func(*DNS) {
		return func(d *DNS) { d.Karpenter.Pools = append(d.Karpenter.Pools, p) }
	}
	for name, c := range map[string]struct {
		dns  DNS
		want []string // rules, ? after those that are unknown
		got  string   // part of the text of the first
	}{
		"sound":                {dns: soundKarpenter()},
		"none":                 {dns: sound()},
		"run by EKS Auto Mode": {dns: soundKarpenter(noQueue, func(d *DNS) { d.Karpenter.Workload, d.Karpenter.Outside = nil, "EKS Auto Mode" })},
		"not found":            {dns: soundKarpenter(func(d *DNS) { d.Karpenter.Workload = nil }), want: []string{"karpenter?"}, got: "NodePools or nodes of Karpenter"},
		"only its API is left": {dns: soundKarpenter(func(d *DNS) { d.Karpenter.Workload, d.Karpenter.Pools = nil, nil })},
		"the ARN of its queue": {
			dns:  soundKarpenter(controller(func(c *corev1.Container) { c.Env[0].Value = "arn:aws:sqs:eu-west-1:111122223333:production" })),
			want: []string{"karpenter-interruption-queue-name"}, got: `INTERRUPTION_QUEUE is "arn:aws:sqs:`,
		},
		"the URL of its queue": {
			dns:  soundKarpenter(noQueue, args("--interruption-queue=https://sqs.eu-west-1.amazonaws.com/111122223333/production")),
			want: []string{"karpenter-interruption-queue-name"}, got: `/production", and`,
		},
		"not permitted to read it": {dns: sound(func(d *DNS) { d.Karpenter = Karpenter{Installed: true, Unread: "deployments.apps is forbidden"} }), want: []string{"karpenter?"}, got: "forbidden"},
		"another handler": {
			dns:  soundKarpenter(next(TerminationHandler{Name: "DaemonSet kube-system/nth", Acts: []string{"spot interruptions"}})),
			want: []string{"one-interruption-handler"}, got: "DaemonSet kube-system/nth acts on spot interruptions, as Karpenter does",
		},
		"another handler of its queue": {
			dns:  soundKarpenter(next(TerminationHandler{Name: "Deployment kube-system/nth", Queue: "production", Acts: []string{"spot interruptions"}})),
			want: []string{"one-reader-of-the-queue"}, got: "reads queue production",
		},
		"another handler of another queue": {
			dns:  soundKarpenter(next(TerminationHandler{Name: "Deployment kube-system/nth", Queue: "nth", Acts: []string{"spot interruptions"}})),
			want: []string{"one-interruption-handler"},
		},
		"another for what it leaves alone": {dns: soundKarpenter(next(TerminationHandler{Name: "DaemonSet kube-system/nth"}))},
		"another in its place":             {dns: soundKarpenter(noQueue, next(TerminationHandler{Name: "DaemonSet kube-system/nth", Acts: []string{"spot interruptions"}})), want: []string{"karpenter-interruption-queue"}},
		"no queue":                         {dns: soundKarpenter(noQueue), want: []string{"karpenter-interruption-queue"}, got: "INTERRUPTION_QUEUE is empty"},
		"an empty queue":                   {dns: soundKarpenter(controller(func(c *corev1.Container) { c.Env[0].Value = "" })), want: []string{"karpenter-interruption-queue"}},
		"the queue as an argument":         {dns: soundKarpenter(noQueue, args("--interruption-queue=production"))},
		"the queue as two arguments":       {dns: soundKarpenter(noQueue, args("--interruption-queue", "production"))},
		"the queue may be in a Secret": {dns: soundKarpenter(noQueue, controller(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
		})), want: []string{"karpenter-interruption-queue?"}, got: "Secret s"},
		"the queue comes from elsewhere": {dns: soundKarpenter(controller(func(c *corev1.Container) {
			c.Env[0] = corev1.EnvVar{Name: "INTERRUPTION_QUEUE", ValueFrom: &corev1.EnvVarSource{}}
		})), want: []string{"karpenter-interruption-queue?"}},
		"the queue under its former key":    {dns: soundKarpenter(noQueue, formerQueue), want: []string{"karpenter-interruption-queue-key"}, got: "the queue production is in the ConfigMap"},
		"the former key in its time":        {dns: soundKarpenter(noQueue, formerQueue, version("v0.32.3"))},
		"no queue before v0.33":             {dns: soundKarpenter(version("v0.32.3")), want: []string{"karpenter-interruption-queue"}, got: "aws.interruptionQueueName"},
		"no tag, and the former key":        {dns: soundKarpenter(noQueue, formerQueue, controller(func(c *corev1.Container) { c.Image = "controller@sha256:00" })), want: []string{"karpenter-interruption-queue-key"}},
		"Provisioners are left":             {dns: soundKarpenter(provisioners), want: []string{"karpenter-removed-apis"}, got: "Provisioner of karpenter.sh/v1alpha5"},
		"Provisioners in their time":        {dns: soundKarpenter(provisioners, formerQueue, version("v0.31.0"))},
		"on its own node":                   {dns: soundKarpenter(ownNode), want: []string{"karpenter-off-its-own-nodes"}, got: "karpenter-a on system-1"},
		"one of two on its own node":        {dns: soundKarpenter(ownNode, otherToo)},
		"CoreDNS on its nodes alone":        {dns: soundKarpenter(allPooled), want: []string{"karpenter-without-its-own-dns"}},
		"that, with dnsPolicy Default":      {dns: soundKarpenter(allPooled, policy(corev1.DNSDefault, false))},
		"that, in the network of the host":  {dns: soundKarpenter(allPooled, policy(corev1.DNSClusterFirst, true))},
		"that, but asking CoreDNS":          {dns: soundKarpenter(allPooled, policy(corev1.DNSClusterFirstWithHostNet, true)), want: []string{"karpenter-without-its-own-dns"}},
		"CoreDNS without a budget":          {dns: soundKarpenter(budgets()), want: []string{"budget", "dns-on-consolidated-nodes"}},
		"that, with do-not-disrupt":         {dns: soundKarpenter(budgets(), kept), want: []string{"budget", "dns-not-kept-at-a-notice"}, got: "PodDisruptionBudget"},
		"with a budget and do-not-disrupt":  {dns: soundKarpenter(kept), want: []string{"dns-not-kept-at-a-notice"}, got: "with karpenter.sh/do-not-disrupt on nodes of Karpenter"},
		"do-not-disrupt on another's nodes": {dns: soundKarpenter(kept, func(d *DNS) { d.Pods[0].Pool = "" })},
		"that, where only empty nodes go":   {dns: soundKarpenter(budgets(), empty), want: []string{"budget"}},
		"a second pool like the first":      {dns: soundKarpenter(second(Pool{Name: "more", Requirements: []corev1.NodeSelectorRequirement{in("kubernetes.io/arch", "arm64")}})), want: []string{"nodepools-overlap"}, got: "spot and more"},
		"a second pool of another weight":   {dns: soundKarpenter(second(Pool{Name: "more", Weight: 10}))},
		"a second pool of other taints":     {dns: soundKarpenter(second(Pool{Name: "more", Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}}))},
		"a second pool of other capacities": {dns: soundKarpenter(second(Pool{Name: "more", Requirements: []corev1.NodeSelectorRequirement{in(capacityType, "on-demand", "reserved")}}))},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := rulesOf(t, c.dns)
			if !slices.Equal(got, c.want) {
				t.Fatalf("got %v, want %v\n%+v", got, c.want, found)
			}
			if c.got != "" && !strings.Contains(found[0].Got, c.got) {
				t.Errorf("got %q, want %q", found[0].Got, c.got)
			}
		})
	}
}

func TestTheQueueInAWS(t *testing.T) {
	a, err := New(soundKarpenter())
	if err != nil || a.InterruptionQueue() != "production" {
		t.Fatalf("%v, queue %q", err, a.InterruptionQueue())
	}
	for name, c := range map[string]struct {
		queue Queue
		want  []string
	}{
		"sound":                    {Queue{Name: "production"}, nil},
		"no such queue":            {Queue{Name: "production", Missing: true}, []string{"karpenter-queue-exists"}},
		"no rule for spot":         {Queue{Name: "production", Unheard: []string{"spot-interruption"}}, []string{"karpenter-queue-rules"}},
		"its policy refuses, too":  {Queue{Name: "production", Unheard: []string{"spot-interruption"}, Policy: Objection{Why: "it has none"}}, []string{"karpenter-queue-policy", "karpenter-queue-rules"}},
		"not permitted to find it": {Queue{Name: "production", Missing: true, Unread: "sqs:GetQueueUrl is not permitted"}, []string{"karpenter-queue-exists?"}},
		"rules that may be there":  {Queue{Name: "production", Unclear: []string{"spot-interruption"}, Doubts: []string{"events:DescribeRule is not permitted"}}, []string{"karpenter-queue-rules?"}},
		"and one that is missing":  {Queue{Name: "production", Unheard: []string{"state-change"}, Unclear: []string{"spot-interruption"}}, []string{"karpenter-queue-rules", "karpenter-queue-rules?"}},
		"a key that refuses":       {Queue{Name: "production", Encryption: Objection{Why: "alias/aws/sqs"}}, []string{"karpenter-queue-encryption"}},
		"a key that is not known":  {Queue{Name: "production", Encryption: Objection{Why: "its policy is not known", Unknown: true}}, []string{"karpenter-queue-encryption?"}},
	} {
		var got []string
		for _, f := range a.WithQueue(c.queue).Findings {
			if f.Unknown {
				f.Rule += "?"
			}
			got = append(got, f.Rule)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if len(a.Findings) > 0 {
		t.Errorf("the advice itself has changed: %+v", a.Findings)
	}
}

// The affinity of the eksctl era: its first term keeps Karpenter off its own nodes, its second
// is fulfilled by every node since v0.32.
func TestATermOfAnAffinityWithoutItsLabel(t *testing.T) {
	term := func(key string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requires(key, corev1.NodeSelectorOpDoesNotExist)}}
	}
	d := soundKarpenter(func(d *DNS) {
		d.Karpenter.Pods[0].Pool = "spot"
		d.Karpenter.Workload.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term(poolLabel), term(formerPoolLabel)}},
		}}
	})
	a, err := New(d)
	if err != nil || len(a.Findings) != 1 || !strings.Contains(a.Findings[0].Got, "karpenter.sh/provisioner-name DoesNotExist, which every node matches") {
		t.Errorf("%v, %+v", err, a.Findings)
	}
}

func TestRequirementsThatContradict(t *testing.T) {
	const exists, doesNotExist, notIn, gt, lt = corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt
	for name, c := range map[string]struct {
		a, b corev1.NodeSelectorRequirement
		want bool
	}{
		"the same value":            {in("k", "a", "b"), in("k", "b"), false},
		"other values":              {in("k", "a", "b"), in("k", "c"), true},
		"all values are excluded":   {in("k", "a"), requires("k", notIn, "a", "b"), true},
		"one value is not excluded": {in("k", "a", "c"), requires("k", notIn, "a", "b"), false},
		"any value, or none":        {requires("k", exists), requires("k", doesNotExist), true},
		"a value, or none":          {in("k", "a"), requires("k", doesNotExist), true},
		"not a value, or none":      {requires("k", notIn, "a"), requires("k", doesNotExist), false},
		"a number above":            {in("k", "4"), requires("k", gt, "3"), false},
		"no number above":           {in("k", "2", "3"), requires("k", gt, "3"), true},
		"one number between":        {requires("k", gt, "3"), requires("k", lt, "5"), false},
		"no number between":         {requires("k", gt, "3"), requires("k", lt, "4"), true},
		"a text is no number":       {in("k", "many"), requires("k", lt, "4"), true},
		"two exclusions":            {requires("k", notIn, "a"), requires("k", notIn, "b"), false},
	} {
		if got := contradict(c.a, c.b); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		if got := contradict(c.b, c.a); got != c.want {
			t.Errorf("%s, the other way round: %t, want %t", name, got, c.want)
		}
	}
}

func TestReadKarpenter(t *testing.T) {
	const karpenter = `apiVersion: apps/v1
kind: Deployment
metadata: {name: karpenter, namespace: karpenter}
spec: {selector: {matchLabels: {app: karpenter}}, template: {spec: {containers: [{name: controller, image: karpenter/controller:1.14.1}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: karpenter-global-settings, namespace: karpenter}
data: {aws.interruptionQueueName: old}
---
apiVersion: v1
kind: Pod
metadata: {name: k, namespace: karpenter, labels: {app: karpenter}}
spec: {nodeName: node-a}
---
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {karpenter.sh/nodepool: spot}}`
	const pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: spot}
spec:
  weight: 10
  template: {metadata: {labels: {team: a}}, spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot], minValues: 1}]}}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m, budgets: [{nodes: 10%}]}`
	const provisioner = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}"
	a, _ := adviceFor(t, file(t, "base.yaml"), karpenter, pool, provisioner)
	k := a.dns.Karpenter
	if k.String() != "karpenter/karpenter v1.14.1" || k.FormerQueue != "old" || len(k.Pods) != 1 || k.Pods[0].Pool != "spot" || a.dns.Pods[0].Pool != "spot" {
		t.Errorf("read %s, %+v", k, a.dns)
	}
	if len(k.Pools) != 1 || k.Pools[0].Weight != 10 || !k.Pools[0].Consolidates || len(k.Pools[0].Requirements) != 2 {
		t.Errorf("read pools %+v", k.Pools)
	}
	if len(k.Removed) != 1 || k.Removed[0].Kind != "Provisioner" {
		t.Errorf("read removed kinds %+v", k.Removed)
	}
	if a, _ := adviceFor(t, file(t, "base.yaml"), karpenter); a.dns.Karpenter.Installed {
		t.Errorf("without its API: %+v", a.dns.Karpenter)
	}
}

func TestWhichPoolsConsolidate(t *testing.T) {
	for text, want := range map[string]bool{
		"":                         true,
		"WhenEmptyOrUnderutilized": true,
		"WhenUnderutilized":        true, // v1beta1
		"WhenEmpty":                false,
	} {
		var o poolObject
		o.Spec.Disruption.ConsolidationPolicy = text
		if got := o.pool().Consolidates; got != want {
			t.Errorf("policy %q: %t, want %t", text, got, want)
		}
		o.Spec.Disruption.ConsolidateAfter = "Never"
		if o.pool().Consolidates {
			t.Errorf("policy %q, never: it does", text)
		}
	}
	type budget = struct {
		Nodes    string   `json:"nodes"`
		Reasons  []string `json:"reasons"`
		Schedule string   `json:"schedule"`
	}
	for name, c := range map[string]struct {
		budget budget
		want   bool
	}{
		"a tenth of the nodes": {budget{Nodes: "10%"}, true},
		"none":                 {budget{Nodes: "0"}, false},
		"none by drift":        {budget{Nodes: "0", Reasons: []string{"Drifted"}}, true},
		"none by day":          {budget{Nodes: "0", Schedule: "0 9 * * *"}, true},
	} {
		var o poolObject
		o.Spec.Disruption.Budgets = append(o.Spec.Disruption.Budgets, c.budget)
		if got := o.pool().Consolidates; got != c.want {
			t.Errorf("a budget of %s: %t, want %t", name, got, c.want)
		}
	}
}
