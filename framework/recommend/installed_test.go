package recommend

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// readObjects reads the Karpenter of a cluster with the objects of some YAML documents.
func readObjects(t *testing.T, documents ...string) Karpenter {
	t.Helper()
	client, objects := cluster(t, append(documents, "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: x}")...)
	nodes, _, err := readNodes(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	k, err := readKarpenter(t.Context(), client, objects, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// installed is a Deployment or DaemonSet of one container; pod is what else its pods have.
func installed(kind, name, label, container, pod string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: %s, namespace: kube-system, labels: {app.kubernetes.io/name: %s}}
spec:
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec: {serviceAccountName: %[2]s, containers: [%[4]s]%s}`, kind, name, label, container, pod)
}

const (
	aPool       = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: general}\nspec: {template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}]}}}"
	aController = "{name: controller, image: public.ecr.aws/karpenter/controller:1.8.0, env: [{name: INTERRUPTION_QUEUE, value: shop}]}"
	classes     = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec: {tags: {%s: x}}"
)

// rightsOf gives a ServiceAccount of kube-system a right.
func rightsOf(account, rule string) string {
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %s}
rules: [%s]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: %[1]s}]`, account, rule)
}

func TestKarpenterIsFoundByWhatItIs(t *testing.T) {
	for name, c := range map[string]struct {
		objects []string
		want    string // Karpenter in words
		queue   string
	}{
		"as its chart names it":    {[]string{installed("Deployment", "karpenter", "karpenter", aController, "")}, "kube-system/karpenter v1.8.0", "shop"},
		"renamed by nameOverride":  {[]string{installed("Deployment", "node-autoscaler", "node-autoscaler", aController, "")}, "kube-system/node-autoscaler v1.8.0", "shop"},
		"from a mirror, by digest": {[]string{installed("Deployment", "x", "x", "{name: main, image: 'mirror.example.com:5000/ecr/karpenter/controller@sha256:00', env: [{name: INTERRUPTION_QUEUE, value: shop}]}", "")}, "kube-system/x", "shop"},
		"by its environment":       {[]string{installed("Deployment", "x", "x", "{name: main, image: 'mirror.example.com/autoscaler:1.8.0', env: [{name: KARPENTER_SERVICE, value: x}, {name: INTERRUPTION_QUEUE, value: shop}]}", "")}, "kube-system/x v1.8.0", "shop"},
		"by its arguments":         {[]string{installed("Deployment", "x", "x", "{name: proxy}, {name: main, image: autoscaler, args: [--interruption-queue, shop]}", "")}, "kube-system/x", "shop"},
		"by its rights":            {[]string{installed("Deployment", "x", "x", "{name: main, image: autoscaler, env: [{name: INTERRUPTION_QUEUE, value: shop}]}", ""), rightsOf("x", "{apiGroups: [karpenter.sh], resources: [nodeclaims], verbs: [create, delete]}")}, "kube-system/x", "shop"},
		"with the queue in a ConfigMap": {[]string{
			installed("Deployment", "karpenter", "karpenter", "{name: controller, image: karpenter/controller, envFrom: [{configMapRef: {name: settings}}]}", ""),
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: kube-system}\ndata: {INTERRUPTION_QUEUE: shop}",
		}, "kube-system/karpenter", "shop"},
		"by what a shell is given":    {[]string{installed("Deployment", "x", "x", "{name: main, image: autoscaler, command: [sh, -c, 'exec /karpenter --interruption-queue=shop']}", "")}, "kube-system/x", "shop"},
		"as a StatefulSet":            {[]string{installed("StatefulSet", "x", "x", aController, "")}, "kube-system/x v1.8.0", "shop"},
		"with references":             {[]string{installed("Deployment", "x", "x", "{name: main, image: karpenter/controller, env: [{name: A, value: sh}, {name: B, value: $(A)op}], args: [--interruption-queue=$(B)]}", "")}, "kube-system/x", "shop"},
		"with one that is unknown":    {[]string{installed("Deployment", "x", "x", "{name: main, image: karpenter/controller, args: [--interruption-queue=$(B)]}", "")}, "kube-system/x", ""},
		"not what only reads its API": {[]string{installed("Deployment", "dashboard", "dashboard", "{name: main, image: karpenter-dashboard}", ""), rightsOf("dashboard", "{apiGroups: [karpenter.sh], resources: ['*'], verbs: [get, list]}")}, "not found: ", ""},
		"scaled to 0":                 {[]string{strings.Replace(installed("Deployment", "karpenter", "karpenter", aController, ""), "spec:", "spec:\n  replicas: 0", 1)}, "not found: ", ""},
		"EKS Auto Mode":               {[]string{"apiVersion: v1\nkind: Node\nmetadata: {name: i-0, labels: {eks.amazonaws.com/compute-type: auto}}"}, "that of EKS Auto Mode", ""},
	} {
		k := readObjects(t, append(c.objects, aPool)...)
		if !strings.HasPrefix(k.String(), c.want) || k.Workload != nil && k.queue() != c.queue {
			t.Errorf("%s: %q, want %q", name, k, c.want)
		}
	}
}

func TestOtherHandlersAsTheyAreInstalled(t *testing.T) {
	const image = "image: 'public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.2'"
	env := func(pairs ...string) string {
		var list []string
		for _, p := range pairs {
			name, value, _ := strings.Cut(p, "=")
			list = append(list, fmt.Sprintf("{name: %s, value: '%s'}", name, value))
		}
		return "env: [" + strings.Join(list, ", ") + "]"
	}
	const reads, other = "QUEUE_URL=https://sqs.eu-west-1.amazonaws.com/111122223333/shop", "QUEUE_URL=https://sqs.eu-west-1.amazonaws.com/111122223333/other"
	const queueMode, untagged = "ENABLE_SQS_TERMINATION_DRAINING=true", "CHECK_TAG_BEFORE_DRAINING=false"
	queue := func(settings ...string) string {
		return installed("Deployment", "nth", "nth", "{name: nth, "+image+", "+env(append(settings, queueMode)...)+"}", "")
	}
	metadata := func(pod string, settings ...string) string {
		return installed("DaemonSet", "nth", "nth", "{name: nth, "+image+", "+env(settings...)+"}", pod)
	}
	own := func(settings string) string {
		return installed("Deployment", "own", "own", "{name: own, image: own, "+settings+"}", "")
	}
	mayEvict := rightsOf("own", "{apiGroups: ['', policy], resources: [pods/eviction], verbs: [create]}")
	const managed = "aws-node-termination-handler/managed"
	const onePool = "one-interruption-handler"
	windows := strings.Replace(aPool, "requirements: [", "taints: [{key: gpu, effect: NoSchedule}], requirements: [{key: kubernetes.io/os, operator: In, values: [windows]}, ", 1)
	for name, c := range map[string]struct {
		objects []string
		want    string // the rule, ? after one that is unknown
		got     string
	}{
		"renamed, on the same queue": {[]string{queue(reads)}, "one-reader-of-the-queue", "Deployment kube-system/nth reads queue shop"},
		"that, in a dry run":         {[]string{queue(reads, "DRY_RUN=true")}, "one-reader-of-the-queue", ""},
		"the queue by its ARN":       {[]string{queue("QUEUE_URL=arn:aws:sqs:eu-west-1:111122223333:shop")}, "one-reader-of-the-queue", ""},
		"of a mirror, by its environment": {
			[]string{installed("Deployment", "x", "x", "{name: x, image: 'mirror.example.com/nth:1', "+env(queueMode, reads)+"}", "")}, "one-reader-of-the-queue", "kube-system/x",
		},
		"by arguments": {
			[]string{installed("Deployment", "x", "x", "{name: x, image: nth, args: [--enable-sqs-termination-draining, --check-tag-before-draining=false, --queue-url=https://sqs/1/other]}", "")}, onePool, "kube-system/x acts on",
		},
		"the queue by its URL with a slash": {[]string{queue(reads + "/")}, "one-reader-of-the-queue", ""},
		"the queue by a reference":          {[]string{queue("NAME=shop", "QUEUE_URL=https://sqs.eu-west-1.amazonaws.com/111122223333/$(NAME)")}, "one-reader-of-the-queue", ""},
		"by what a shell is given": {
			[]string{installed("Deployment", "x", "x", "{name: x, image: nth, command: [/bin/sh, -c, '/nth --enable-sqs-termination-draining=true --queue-url=https://sqs/1/shop']}", "")}, "one-reader-of-the-queue", "kube-system/x",
		},
		"as a sidecar of its own": {
			[]string{installed("Deployment", "x", "x", "{name: main, image: pause}", ", initContainers: [{name: nth, restartPolicy: Always, "+image+", "+env(queueMode, reads)+"}]")}, "one-reader-of-the-queue", "kube-system/x",
		},
		"a queue of that name in another region": {[]string{queue("QUEUE_URL=https://sqs.us-east-1.amazonaws.com/111122223333/shop", untagged), node("a", "topology.kubernetes.io/region: eu-west-1")}, onePool, "kube-system/nth acts on"},
		"a queue of that name in this region":    {[]string{queue(reads), node("a", "topology.kubernetes.io/region: eu-west-1")}, "one-reader-of-the-queue", "as Karpenter does: https://sqs.eu-west-1."},
		"the queue in China":                     {[]string{queue("QUEUE_URL=https://sqs.cn-north-1.amazonaws.com.cn/111122223333/shop"), node("a", "topology.kubernetes.io/region: cn-north-1")}, "one-reader-of-the-queue", ""},
		"the queue in GovCloud, by its ARN":      {[]string{queue("QUEUE_URL=arn:aws-us-gov:sqs:us-gov-west-1:111122223333:shop"), node("a", "topology.kubernetes.io/region: us-gov-west-1")}, "one-reader-of-the-queue", ""},
		"the queue by an endpoint of a VPC":      {[]string{queue("QUEUE_URL=https://vpce-0a1b-c2d3.sqs.eu-west-1.vpce.amazonaws.com/111122223333/shop"), node("a", "topology.kubernetes.io/region: eu-west-1")}, "one-reader-of-the-queue", ""},
		"an earlier handler of spot interruptions": {
			[]string{installed("DaemonSet", "x", "x", "{name: x, image: 'kubeaws/kube-spot-termination-notice-handler:1.13.7-1'}", "")}, onePool, "acts on spot interruptions",
		},
		"one on a node group": {
			[]string{installed("DaemonSet", "x", "x", "{name: x, image: 'mirror.example.com/k8s-spot-termination-handler'}", ", nodeSelector: {eks.amazonaws.com/nodegroup: base}")}, "", "",
		},
		"another queue, every instance": {[]string{queue(other, untagged)}, onePool, "state changes, as Karpenter does"},
		"a dry run":                     {[]string{queue(other, untagged, "DRY_RUN=true")}, "", ""},
		"tagged instances, and the tags of Karpenter's are not known": {[]string{queue(other)}, onePool + "?", "tag " + managed},
		"tagged instances, which Karpenter's are":                     {[]string{queue(other), fmt.Sprintf(classes, managed)}, onePool, "EC2NodeClass default sets"},
		"tagged instances, which Karpenter's are not":                 {[]string{queue(other, "MANAGED_TAG=own/tag"), fmt.Sprintf(classes, managed)}, "", ""},
		"a queue from elsewhere": {
			[]string{installed("Deployment", "nth", "nth", "{name: nth, "+image+", env: [{name: ENABLE_SQS_TERMINATION_DRAINING, value: 'true'}, {name: CHECK_TAG_BEFORE_DRAINING, value: 'false'}, {name: QUEUE_URL, valueFrom: {secretKeyRef: {name: s, key: k}}}]}", "")},
			onePool + "?", "QUEUE_URL may be in what its valueFrom refers to",
		},

		"metadata, on every node":                           {[]string{metadata("")}, onePool, "it runs on nodes of NodePool general"},
		"metadata, on a node group":                         {[]string{metadata(", nodeSelector: {eks.amazonaws.com/nodegroup: base}")}, "", ""},
		"metadata, on spot nodes":                           {[]string{metadata(", nodeSelector: {karpenter.sh/capacity-type: spot, kubernetes.io/os: linux}")}, onePool, "NodePool general"},
		"metadata, on nodes of another pool":                {[]string{metadata(", nodeSelector: {karpenter.sh/nodepool: base}")}, "", ""},
		"metadata, on an architecture":                      {[]string{metadata(", nodeSelector: {kubernetes.io/arch: arm64}")}, onePool + "?", "may run on nodes of NodePool general"},
		"metadata, off Karpenter's nodes":                   {[]string{metadata(", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]}}}")}, "", ""},
		"metadata, off a taint, which it does not tolerate": {[]string{metadata(""), windows}, "", ""},
		"metadata, on a taint, but Linux":                   {[]string{metadata(", tolerations: [{operator: Exists}], nodeSelector: {kubernetes.io/os: linux}"), windows}, "", ""},
		"metadata, for recommendations alone":               {[]string{metadata("", "ENABLE_SPOT_INTERRUPTION_DRAINING=false", "ENABLE_SCHEDULED_EVENT_DRAINING=false")}, "", ""},
		"metadata, with an empty value":                     {[]string{metadata("", "ENABLE_SPOT_INTERRUPTION_DRAINING=")}, onePool, "spot interruptions"},

		"a handler of your own":                       {[]string{own(env("QUEUE=shop")), mayEvict}, "one-reader-of-the-queue", "Deployment kube-system/own reads"},
		"one of your own, by its arguments":           {[]string{own("args: [--queue-name, shop]"), mayEvict}, "one-reader-of-the-queue", "Deployment kube-system/own reads"},
		"one of your own, on another queue":           {[]string{own("args: ['arn:aws:sqs:eu-west-1:111122223333:drain']"), mayEvict}, onePool + "?", "settings name queue drain"},
		"what names the queue, and may drain nothing": {[]string{own(env("SQS_QUEUE_URLS=https://sqs.eu-west-1.amazonaws.com/111122223333/shop"))}, "one-reader-of-the-queue?", "only looks at the queue"},
		"an application with a queue of its own":      {[]string{own(env("QUEUE=orders"))}, "", ""},
	} {
		objects := c.objects
		if !slices.ContainsFunc(objects, func(o string) bool { return strings.Contains(o, "NodePool") }) {
			objects = append(objects, aPool)
		}
		k := readObjects(t, append(objects, installed("Deployment", "karpenter", "karpenter", aController, ""))...)
		var rule, got string
		for _, f := range k.lintOthers(k.queue()) {
			rule, got = rule+f.Rule, got+f.Got
			if f.Unknown {
				rule += "?"
			}
		}
		if rule != c.want || !strings.Contains(got, c.got) {
			t.Errorf("%s: %q, %q; want %q, %q", name, rule, got, c.want, c.got)
		}
	}
}

// roundTrip answers requests in place of a server.
type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// Without the right to list NodePools it is not known whether there are any, nor what follows from them: never "none".
func TestNodePoolsThatMayNotBeListed(t *testing.T) {
	const onPool = "apiVersion: v1\nkind: Node\nmetadata: {name: node-a, labels: {karpenter.sh/nodepool: general, karpenter.sh/capacity-type: spot}}"
	dnsPod := "apiVersion: v1\nkind: Pod\nmetadata: {name: coredns-a, namespace: kube-system, labels: {k8s-app: kube-dns}}\nspec: {nodeName: node-a}"
	karpenter := installed("Deployment", "karpenter", "karpenter", aController, "")
	handler := installed("DaemonSet", "nth", "nth", "{name: nth, image: 'public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.6'}", ", nodeSelector: {eks.amazonaws.com/nodegroup: base}")
	for name, c := range map[string]struct {
		documents []string
		want      []string // the rules that are unknown for that reason
	}{
		"no workload of Karpenter is found": {[]string{aPool}, []string{"karpenter"}},
		"CoreDNS is on a node of a pool":    {[]string{aPool, karpenter, onPool, dnsPod}, []string{"dns-on-consolidated-nodes", "nodepools-overlap"}},
		"another handler on some nodes":     {[]string{aPool, karpenter, handler}, []string{"nodepools-overlap", "one-interruption-handler"}},
	} {
		m := &Manifests{whole: true}
		documents := slices.DeleteFunc(append(strings.Split(file(t, "base.yaml"), "\n---\n"), c.documents...), func(d string) bool { return strings.Contains(d, "PodDisruptionBudget") })
		if err := m.add("objects.yaml", []byte(strings.Join(documents, "\n---\n")), "kube-system"); err != nil {
			t.Fatal(err)
		}
		config := m.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if !strings.HasSuffix(r.URL.Path, "/nodepools") {
					return next.RoundTrip(r)
				}
				body := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "nodepools.karpenter.sh is forbidden", "code": 403}`
				return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
			})
		})
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Read(t.Context(), client, objects, "kube-system", "")
		if err != nil {
			t.Fatal(err)
		}
		a, _ := adviceOf(t, d)
		var got []string
		for _, f := range a.Findings {
			if strings.Contains(f.Got, "nodepools.karpenter.sh is forbidden") {
				got = append(got, f.Rule)
				if !f.Unknown {
					t.Errorf("%s: %s is not unknown", name, f.Rule)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: not known are %v, want %v", name, got, c.want)
		}
	}
}
