package recommend

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// cluster has the objects of YAML documents, and no others: a later one takes the place of an earlier one of
// its name.
func cluster(t *testing.T, documents ...string) (kubernetes.Interface, dynamic.Interface) {
	t.Helper()
	m := &Manifests{whole: true}
	if err := m.add("objects.yaml", []byte(strings.Join(documents, "\n---\n")), "kube-system"); err != nil {
		t.Fatal(err)
	}
	return m.clients(t)
}

func (m *Manifests) clients(t *testing.T) (kubernetes.Interface, dynamic.Interface) {
	t.Helper()
	client, err := kubernetes.NewForConfig(m.Config())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(m.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client, objects
}

// adviceFor is the advice for a cluster of these objects.
func adviceFor(t *testing.T, documents ...string) (Advice, string) {
	t.Helper()
	client, objects := cluster(t, documents...)
	d, err := Read(t.Context(), client, objects, "kube-system", "")
	if err != nil {
		t.Fatal(err)
	}
	return adviceOf(t, d)
}

func adviceOf(t *testing.T, d DNS) (Advice, string) {
	t.Helper()
	a, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := a.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return a, text.String()
}

// patched is the workload with the printed patch, as the API server merges it. It must be one that the API
// server takes, and whose probe asks where the Corefile has it.
func patched(t *testing.T, a Advice) Workload {
	t.Helper()
	w := a.dns.Workload
	before, err := json.Marshal(asDeployment(w))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := yaml.YAMLToJSON([]byte(cmp.Or(a.Patch.Deployment, "{}")))
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(before, patch, appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	var after appsv1.Deployment
	if err := yaml.UnmarshalStrict(merged, &after); err != nil {
		t.Fatal(err)
	}
	w.Template = after.Spec.Template
	old, now := a.dns.Workload.Template.Spec, w.Template.Spec
	if !equality.Semantic.DeepEqual(old.Volumes, now.Volumes) || len(old.Containers) != len(now.Containers) {
		t.Errorf("the patch changes volumes or containers: %s", merged)
	}
	for i, c := range now.Containers {
		if c.Image != old.Containers[i].Image || c.Name != old.Containers[i].Name {
			t.Errorf("container %s has image %q instead of %q", c.Name, c.Image, old.Containers[i].Image)
		}
		probe := c.ReadinessProbe
		if probe == nil {
			continue
		}
		handlers := 0
		for _, set := range []bool{probe.HTTPGet != nil, probe.TCPSocket != nil, probe.Exec != nil, probe.GRPC != nil} {
			if set {
				handlers++
			}
		}
		if handlers != 1 {
			t.Errorf("the probe of container %s has %d handlers: %s", c.Name, handlers, merged)
		}
	}
	d := a.dns
	d.Workload = w
	if a.Patch.Deployment != "" && d.readiness() != nil && d.readiness().HTTPGet != nil && len(a.corefile.Ready) > 0 && a.corefile.Refused == "" {
		for _, f := range d.lintReadiness(a.corefile) {
			if f.Rule == "readiness-port" || f.Rule == "readiness-asks-ready" {
				t.Errorf("with the patch, still %s: %s", f.Rule, f.Got)
			}
		}
	}
	return w
}

func file(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keys is a ConfigMap of these keys and texts.
func keys(t *testing.T, name string, keysAndTexts ...string) string {
	t.Helper()
	cm := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"}, Data: map[string]string{}}
	for pair := range slices.Chunk(keysAndTexts, 2) {
		cm.Data[pair[0]] = pair[1]
	}
	text, err := yaml.Marshal(cm)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// workloadOf is CoreDNS as a Deployment, or with another kind and name, with more in the metadata, the pod and the container.
func workloadOf(kind, name, labels, pod, container string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: %s, namespace: kube-system%s}
spec:
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      terminationGracePeriodSeconds: 60
%s
      containers:
      - name: coredns
        image: registry.k8s.io/coredns/coredns:v1.12.1
        args: [-conf, /etc/coredns/Corefile]
        readinessProbe: {httpGet: {path: /ready, port: 8181, scheme: HTTP}, periodSeconds: 1, failureThreshold: 3}
        volumeMounts: [{name: config, mountPath: /etc/coredns}, {name: custom, mountPath: /etc/coredns/custom}]
%s
      volumes: [{name: config, configMap: {name: coredns, items: [{key: Corefile, path: Corefile}]}}, {name: custom, configMap: {name: coredns-custom, optional: true}}]`, kind, name, labels, indented(6, pod), indented(8, container))
}

func indented(by int, text string) string {
	return strings.Repeat(" ", by) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", by))
}

func node(name, labels string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {%s}}", name, labels)
}

// Corefiles and clusters as people have them: see docs/advice.md.
func TestClustersOfTheField(t *testing.T) {
	const replicas = "replicas: 2"
	two := func(text string) string { return strings.Replace(text, "spec:\n", "spec:\n  "+replicas+"\n", 1) }
	deployment := func(labels, pod, container string) string {
		return two(workloadOf("Deployment", "coredns", labels, pod, container))
	}
	removed := func(kind, name string) string {
		return fmt.Sprintf("apiVersion: apps/v1\nkind: %s\nmetadata: {name: %s, namespace: kube-system}\nspec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: none}]}}}", kind, name)
	}
	budgetOf := func(spec string) string {
		return "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: coredns, namespace: kube-system}\nspec: {" + spec + "}"
	}
	scaler := func(kind, spec string) string {
		return "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: dns, namespace: kube-system}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: " + kind + ", name: coredns}, " + spec + "}"
	}
	const customized = ".:53 {\n    health {\n        lameduck 5s\n    }\n    ready\n    kubernetes\n    import custom/*.override\n}\nimport custom/*.server\n"
	azure := ", labels: {kubernetes.azure.com/managedby: aks, addonmanager.kubernetes.io/mode: Reconcile}"
	onAzure := []string{node("node-a", "kubernetes.azure.com/cluster: mc"), node("node-b", "kubernetes.azure.com/cluster: mc")}
	managed := func(object, fields string) string {
		return fmt.Sprintf("{manager: %s, operation: Apply, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: %s}", object, fields)
	}
	for name, c := range map[string]struct {
		corefile string   // of testdata/corefiles
		objects  []string // over testdata/base.yaml
		want     []string // rules, ? after those that are unknown
		has, not []string // of the text
	}{
		"what keeps every rule":      {has: []string{"nothing to warn of"}},
		"comma-lines":                {corefile: "comma-lines", has: []string{"lameduck 12s"}},
		"brace-below":                {corefile: "brace-below", has: []string{"lameduck 12s"}},
		"several-zones":              {corefile: "several-zones", has: []string{"lameduck 30s"}},
		"common":                     {corefile: "common", has: []string{"lameduck 12s"}},
		"two-in-one-block":           {corefile: "two-in-one-block", has: []string{"lameduck 12s"}},
		"import-in-health":           {corefile: "import-in-health", has: []string{"lameduck 12s"}},
		"no-ready":                   {corefile: "no-ready", want: []string{"lameduck", "ready-plugin"}, has: []string{"    ready\n"}},
		"no-plugin-for-the-end":      {corefile: "no-plugin-for-the-end", want: []string{"health-plugin", "ready-plugin"}, not: []string{"{ lameduck"}},
		"health-on-one-line":         {corefile: "health-on-one-line", want: []string{"next-pod-starts"}, has: []string{"line 2: lameduck 12s }: write the property"}, not: []string{"{ lameduck", "Corefile for"}},
		"nested-block":               {corefile: "nested-block", want: []string{"next-pod-starts"}, has: []string{`line 6: "." is no plugin`, "lameduck 12s"}},
		"glued-brace":                {corefile: "glued-brace", want: []string{"next-pod-starts"}, has: []string{`line 7: "ttl" is no plugin`}},
		"block-on-one-line":          {corefile: "block-on-one-line", want: []string{"next-pod-starts"}},
		"no-unit":                    {corefile: "no-unit", want: []string{"next-pod-starts"}, has: []string{"lameduck unknown", "write a number with its unit"}},
		"zone-twice":                 {corefile: "zone-twice", want: []string{"next-pod-starts"}},
		"ready-twice":                {corefile: "ready-twice", want: []string{"next-pod-starts"}},
		"unknown-plugin":             {corefile: "unknown-plugin", want: []string{"next-pod-starts"}},
		"the other rules are judged": {corefile: "no-unit", objects: []string{"apiVersion: v1\nkind: Pod\nmetadata: {name: coredns-2, namespace: kube-system, labels: {k8s-app: kube-dns}}\nspec: {nodeName: node-a}"}, want: []string{"next-pod-starts", "not-all-on-one-node"}, not: []string{"# Deployment"}},

		"environment":                {corefile: "environment", want: []string{"lameduck?"}, has: []string{"lameduck {$LAMEDUCK}: the value of this environment variable is unknown"}},
		"environment of the pod":     {corefile: "environment", objects: []string{deployment("", "", "env: [{name: LAMEDUCK, value: 13s}]")}, has: []string{"lameduck 13s"}},
		"environment of a ConfigMap": {corefile: "environment", objects: []string{deployment("", "", "env: [{name: LAMEDUCK, valueFrom: {configMapKeyRef: {name: times, key: end}}}]"), keys(t, "times", "end", "14s")}, has: []string{"lameduck 14s"}},
		"environment of a Secret":    {corefile: "environment", objects: []string{deployment("", "", "env: [{name: LAMEDUCK, valueFrom: {secretKeyRef: {name: times, key: end}}}]")}, want: []string{"lameduck?"}},
		"only-import":                {corefile: "only-import", want: []string{"health-plugin", "ready-plugin"}, has: []string{"no server block at all", "nothing is mounted that its import of /etc/coredns/base/*.conf matches"}},
		"only-import, of a ConfigMap": {corefile: "only-import", objects: []string{
			strings.Replace(deployment("", "", ""), "mountPath: /etc/coredns/custom", "mountPath: /etc/coredns/base", 1),
			keys(t, "coredns-custom", "a.conf", ". {\n    health {\n        lameduck 15s\n    }\n    ready\n}\n", "b.txt", "x {"),
		}, has: []string{"lameduck 15s", "nothing to warn of"}},
		"only-import, of a Secret": {corefile: "only-import", objects: []string{
			strings.Replace(strings.Replace(deployment("", "", ""), "mountPath: /etc/coredns/custom", "mountPath: /etc/coredns/base", 1), "configMap: {name: coredns-custom, optional: true}", "secret: {secretName: x}", 1),
		}, want: []string{"health-plugin?", "ready-plugin?"}, has: []string{"not in a ConfigMap"}},

		"one-port-for-both":                   {corefile: "one-port-for-both", want: []string{"liveness-port", "health-and-ready-ports"}},
		"ready-elsewhere":                     {corefile: "ready-elsewhere", want: []string{"readiness-port"}, has: []string{"asks port 8181, and ready listens on :8190", "port: 8190"}},
		"ready-elsewhere, a probe of /health": {corefile: "ready-elsewhere", objects: []string{strings.Replace(deployment("", "", ""), "path: /ready, port: 8181", "path: /health, port: 8080", 1)}, want: []string{"readiness-asks-ready"}, has: []string{"on /ready, port 8190", "port: 8190"}, not: []string{"port: 8181"}},
		"without-braces":                      {corefile: "without-braces", objects: []string{strings.Replace(deployment("", "", ""), "8181", "8182", 1)}, want: []string{"lameduck-outlasts-readiness"}},

		"fargate":                        {objects: []string{node("node-a", "eks.amazonaws.com/compute-type: fargate"), node("node-b", "eks.amazonaws.com/compute-type: fargate")}},
		"control plane":                  {objects: []string{node("node-a", `node-role.kubernetes.io/control-plane: ""`), node("node-b", `node-role.kubernetes.io/control-plane: ""`)}},
		"preStop fills the grace period": {objects: []string{deployment("", "", "lifecycle: {preStop: {sleep: {seconds: 40}}}")}, want: []string{"lameduck-within-grace-period"}, has: []string{"preStop 40s, lameduck 10s and up to 10s", "proposed: lameduck 5s"}},
		"tolerates everything, on nodes of Karpenter": {objects: []string{deployment("", "tolerations: [{operator: Exists}]", ""), node("node-b", "karpenter.sh/nodepool: general, karpenter.sh/capacity-type: spot")}, want: []string{"dns-drained-at-a-notice"}, has: []string{"coredns-2 on node-b"}},
		"a StatefulSet":                      {objects: []string{removed("Deployment", "coredns"), two(workloadOf("StatefulSet", "coredns", "", "", "lifecycle: {preStop: {sleep: {seconds: 50}}}"))}, want: []string{"lameduck-within-grace-period"}, has: []string{"StatefulSet kube-system/coredns: lameduck 10s", "patch statefulset coredns"}},
		"a selector of expressions":          {objects: []string{strings.Replace(deployment("", "", ""), "{matchLabels: {k8s-app: kube-dns}}", "{matchExpressions: [{key: k8s-app, operator: In, values: [kube-dns, coredns]}]}", 1)}},
		"a budget of expressions":            {objects: []string{budgetOf("maxUnavailable: 1, selector: {matchExpressions: [{key: k8s-app, operator: Exists}]}")}},
		"a budget of other pods":             {objects: []string{budgetOf("maxUnavailable: 1, selector: {matchExpressions: [{key: k8s-app, operator: NotIn, values: [kube-dns]}]}")}, want: []string{"budget"}},
		"a budget of half of them":           {objects: []string{budgetOf("maxUnavailable: 50%, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {k8s-app: kube-dns}}")}},
		"a budget of none":                   {objects: []string{budgetOf("maxUnavailable: 0%, selector: {matchLabels: {k8s-app: kube-dns}}")}, want: []string{"budget-lets-one-go"}},
		"a budget that all must be there":    {objects: []string{budgetOf("minAvailable: 51%, selector: {matchLabels: {k8s-app: kube-dns}}")}, want: []string{"budget-lets-one-go"}},
		"after a sidecar, with another name": {objects: []string{strings.Replace(strings.Replace(deployment("", "", "lifecycle: {preStop: {exec: {command: [sleep, '40']}}}"), "- name: coredns", "- {name: proxy, image: envoy}\n      - name: server", 1), "registry.k8s.io/coredns/coredns:v1.12.1", "mirror.example.com:5000/x@sha256:00", 1)}, want: []string{"lameduck-within-grace-period"}, has: []string{"preStop 40s"}},
		"a native sidecar":                   {objects: []string{deployment("", "initContainers: [{name: proxy, image: envoy, restartPolicy: Always}]", "")}},
		"on the host's network": {corefile: "on-its-own-address", objects: []string{
			strings.Replace(deployment("", "hostNetwork: true", "livenessProbe: {httpGet: {path: /health, port: 8080, host: 127.0.0.1}}"), "{path: /ready, port: 8181,", "{host: 127.0.0.1, path: /ready, port: 8181,", 1),
		}},
		"on its own address":           {corefile: "on-its-own-address", want: []string{"readiness-port", "liveness-port"}, not: []string{"port: 8181"}},
		"a probe of a port by name":    {corefile: "ready-elsewhere", objects: []string{strings.Replace(deployment("", "", "ports: [{name: dns, containerPort: 53}, {name: readiness, containerPort: 8190}, {name: metrics, containerPort: 9153}]"), "port: 8181", "port: readiness", 1)}},
		"a probe of another's name":    {corefile: "ready-elsewhere", objects: []string{strings.Replace(deployment("", "", "ports: [{name: dns, containerPort: 53}, {name: metrics, containerPort: 9153}]"), "port: 8181", "port: metrics", 1)}, want: []string{"readiness-port"}, has: []string{"port: 8190"}},
		"a probe of TCP":               {objects: []string{strings.Replace(deployment("", "", ""), "httpGet: {path: /ready, port: 8181, scheme: HTTP}", "tcpSocket: {port: 53}", 1)}, want: []string{"readiness-asks-ready"}, has: []string{"port: 8181", "tcpSocket: null"}},
		"no probe":                     {objects: []string{strings.Replace(deployment("", "", ""), "readinessProbe:", "startupProbe:", 1)}, want: []string{"readiness-probe"}, has: []string{"no readiness probe", "proposed: lameduck 10s, readiness 1s x 3"}, not: []string{"10s x 3"}},
		"a plugin of later versions":   {corefile: "multisocket", objects: []string{strings.Replace(deployment("", "", ""), "v1.12.1", "v1.11.4-eksbuild.2", 1)}, want: []string{"next-pod-starts"}, has: []string{`"multisocket" is no plugin of CoreDNS v1.11.4-eksbuild.2`}},
		"a plugin of this version":     {corefile: "multisocket"},
		"a plugin of an unknown build": {corefile: "unknown-plugin", objects: []string{strings.Replace(deployment("", "", ""), "coredns:v1.12.1", "coredns@sha256:00", 1)}, want: []string{"next-pod-starts?"}, has: []string{"--try-next-pod"}},
		"a variable with a default":    {corefile: "environment-with-a-default", want: []string{"next-pod-starts"}, has: []string{"no default values"}},

		"a HorizontalPodAutoscaler":         {objects: []string{scaler("Deployment", "minReplicas: 2")}, has: []string{"owned by an autoscaler (HorizontalPodAutoscaler dns)"}},
		"one down to a single pod":          {objects: []string{scaler("Deployment", "maxReplicas: 5")}, want: []string{"replicas"}, has: []string{"HorizontalPodAutoscaler dns may scale to 1"}},
		"one of another workload":           {objects: []string{scaler("StatefulSet", "minReplicas: 2")}, not: []string{"autoscaler"}},
		"a cluster-proportional-autoscaler": {objects: []string{"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: dns-autoscaler, namespace: kube-system}\nspec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: autoscaler, image: 'registry.k8s.io/cpa/cluster-proportional-autoscaler:v1.8.9', command: [/cluster-proportional-autoscaler, --namespace=kube-system, --target=deployment/coredns]}]}}}"}, has: []string{"Deployment kube-system/dns-autoscaler, a cluster-proportional-autoscaler"}},
		"a Service without a selector": {objects: []string{
			"apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\nspec: {clusterIP: 10.96.0.10}",
			"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}\naddressType: IPv4\nendpoints: [{addresses: [10.0.0.7]}]",
			strings.ReplaceAll(two(workloadOf("Deployment", "resolver", "", "", "")), "k8s-app: kube-dns", "app: resolver"),
			"apiVersion: v1\nkind: Pod\nmetadata: {name: r, namespace: kube-system, labels: {app: resolver}}\nspec: {nodeName: node-a}\nstatus: {podIP: 10.0.0.7}",
			budgetOf("maxUnavailable: 1, selector: {matchLabels: {app: resolver}}"),
		}, has: []string{"kube-system/resolver: lameduck 10s"}},
		"in one zone": {objects: []string{
			node("node-a", "topology.kubernetes.io/zone: a, eks.amazonaws.com/capacityType: ON_DEMAND"), node("node-b", "topology.kubernetes.io/zone: a, eks.amazonaws.com/capacityType: ON_DEMAND"), node("node-c", "topology.kubernetes.io/zone: b"),
		}, want: []string{"not-all-in-one-zone"}, has: []string{"topologyKey: topology.kubernetes.io/zone"}},

		"a DaemonSet of another name, by the Service": {objects: []string{
			"apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\nspec: {selector: {app: cluster-dns}}",
			strings.ReplaceAll(workloadOf("DaemonSet", "cluster-dns", "", "", "lifecycle: {preStop: {sleep: {seconds: 50}}}"), "k8s-app: kube-dns", "app: cluster-dns"),
			"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: kube-system, labels: {app: cluster-dns}}\nspec: {nodeName: node-a}",
			"apiVersion: v1\nkind: Pod\nmetadata: {name: z, namespace: kube-system, labels: {app: cluster-dns}}\nspec: {nodeName: node-b}",
		}, want: []string{"lameduck-within-grace-period"}, has: []string{"DaemonSet kube-system/cluster-dns: lameduck 10s", "patch daemonset cluster-dns"}},
		"a second workload behind the Service": {objects: []string{
			"apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\nspec: {selector: {k8s-app: kube-dns}}",
			workloadOf("DaemonSet", "coredns-on-nodes", "", "", ""),
		}, has: []string{"not judged: DaemonSet kube-system/coredns-on-nodes"}},

		"AKS":                       {objects: append(onAzure, deployment(azure, "", ""), keys(t, "coredns", "Corefile", customized), keys(t, "coredns-custom", "a.override", "health {\n    lameduck 15s\n}\n", "b.server", "b.test {\n    whoami\n}\n")), has: []string{"lameduck 15s", "platform: AKS: ", "nothing to warn of"}, not: []string{"EKS", "unknown"}},
		"AKS, a lameduck too short": {objects: append(onAzure, deployment(azure, "", ""), keys(t, "coredns", "Corefile", customized), keys(t, "coredns-custom", "a.override", "health {\n    lameduck 1s\n}\n")), want: []string{"lameduck-outlasts-readiness"}, has: []string{"patch configmap coredns-custom", "zz-lameduck.override: |\n    health {\n        lameduck 5s\n    }\n", "in ConfigMap kube-system/coredns-custom"}, not: []string{"EKS", "complete Corefile", "# Deployment"}},
		"AKS, a probe too slow":     {objects: append(onAzure, strings.Replace(deployment(azure, "", ""), "periodSeconds: 1,", "periodSeconds: 60,", 1), keys(t, "coredns", "Corefile", customized)), want: []string{"lameduck-outlasts-readiness"}, not: []string{"EKS", "# "}},
		"k3s": {objects: []string{
			deployment(", annotations: {objectset.rio.cattle.io/id: x}", "", ""), node("node-a", "node.kubernetes.io/instance-type: k3s, node-role.kubernetes.io/control-plane: 'true'"),
			keys(t, "coredns", "Corefile", ".:53 {\n    health\n    ready\n    kubernetes\n    import /etc/coredns/custom/*.override\n}\nimport /etc/coredns/custom/*.server\n"), keys(t, "coredns-custom", "x", "y"),
		}, want: []string{"lameduck"}, has: []string{"platform: k3s: ", "zz-lameduck.override", "lameduck 5s"}, not: []string{"complete Corefile", "# Deployment"}},
		"an EKS add-on that was edited": {objects: []string{
			deployment(", managedFields: ["+managed("eks", `{"f:spec": {"f:replicas": {}, "f:template": {}}}`)+", "+managed("kube-controller-manager", `{"f:spec": {"f:replicas": {}}}`)+"]", "", ""),
			strings.Replace(keys(t, "coredns", "Corefile", ". {\n    health {\n        lameduck 10s\n    }\n    ready\n}\n"), "metadata:", "metadata:\n  managedFields: ["+managed("Terraform", `{"f:data": {"f:Corefile": {}}}`)+"]", 1),
		}, want: []string{"add-on-values-by-configuration"}, has: []string{"the Corefile (with lameduck) by Terraform", "replicas: owned by an autoscaler (kube-controller-manager)", "platform: EKS add-on"}, not: []string{"replicas by"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]string{file(t, "base.yaml")}, c.objects...)
			if c.corefile != "" {
				objects = append(objects, keys(t, "coredns", "Corefile", file(t, "corefiles", "Corefile."+c.corefile)))
			}
			a, text := adviceFor(t, objects...)
			patched(t, a)
			var rules []string
			for _, f := range a.Findings {
				if f.Unknown {
					f.Rule += "?"
				}
				rules = append(rules, f.Rule)
			}
			if !slices.Equal(rules, c.want) {
				t.Errorf("got %v, want %v", rules, c.want)
			}
			for _, part := range c.has {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing", part)
				}
			}
			for _, part := range c.not {
				if strings.Contains(text, part) {
					t.Errorf("%q is there", part)
				}
			}
			if strings.Contains(text, "%!") {
				t.Error("a value is missing")
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// Clusters whose DNS is not CoreDNS in pods of kube-system.
func TestPlatformsWithDNSOfTheirOwn(t *testing.T) {
	pods := "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s, labels: {%s}}\nspec: {nodeName: %s}"
	for name, c := range map[string]struct {
		objects  []string
		want     []string
		has, not []string
	}{
		"EKS Auto Mode": {[]string{
			node("i-0", "eks.amazonaws.com/compute-type: auto, karpenter.sh/nodepool: system"),
			"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: system}\nspec: {}",
		}, nil, []string{"EKS Auto Mode: ", "not applicable", "nothing to warn of"}, []string{"lameduck", "kube-system"}},
		"GKE with Cloud DNS": {[]string{node("gke-1", "cloud.google.com/gke-nodepool: a")}, nil, []string{"GKE: ", "not applicable"}, []string{"lameduck"}},
		"GKE with kube-dns": {[]string{
			node("gke-1", "cloud.google.com/gke-nodepool: a, cloud.google.com/gke-spot: 'true'"), node("gke-2", "cloud.google.com/gke-nodepool: a, cloud.google.com/gke-spot: 'true'"),
			"apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\nspec: {selector: {k8s-app: kube-dns}}",
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: kube-dns, namespace: kube-system}\nspec: {replicas: 2, selector: {matchLabels: {k8s-app: kube-dns}}, template: {metadata: {labels: {k8s-app: kube-dns}}, spec: {containers: [{name: kubedns, image: gke.gcr.io/k8s-dns-kube-dns}]}}}",
			fmt.Sprintf(pods, "a", "kube-system", "k8s-app: kube-dns", "gke-1"), fmt.Sprintf(pods, "b", "kube-system", "k8s-app: kube-dns", "gke-2"),
		}, []string{"not-all-on-spot", "budget"}, []string{"GKE: ", "but GKE reverts this"}, []string{"# Deployment", "lameduck-", "health-plugin"}},
		"OpenShift": {[]string{
			node("a", "node-role.kubernetes.io/master: ''"), node("b", "node-role.kubernetes.io/master: ''"),
			"apiVersion: v1\nkind: Service\nmetadata: {name: dns-default, namespace: openshift-dns}\nspec: {selector: {dns: default}}",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dns-default, namespace: openshift-dns}\ndata: {Corefile: \". {\\n    health {\\n        lameduck 20s\\n    }\\n    ready\\n}\\n\"}",
			"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: dns-default, namespace: openshift-dns, labels: {dns.operator.openshift.io/owning-dns: default}}\nspec: {selector: {matchLabels: {dns: default}}, template: {metadata: {labels: {dns: default}}, spec: {containers: [{name: dns, image: quay.io/x, args: [-conf, /etc/coredns/Corefile], readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 3, failureThreshold: 3}, volumeMounts: [{name: c, mountPath: /etc/coredns}]}], volumes: [{name: c, configMap: {name: dns-default}}]}}}",
			fmt.Sprintf(pods, "a", "openshift-dns", "dns: default", "a"), fmt.Sprintf(pods, "b", "openshift-dns", "dns: default", "b"),
		}, []string{"lameduck-within-grace-period"}, []string{"OpenShift: ", "DaemonSet openshift-dns/dns-default: lameduck 20s", "but OpenShift reverts this"}, []string{"# "}},
	} {
		t.Run(name, func(t *testing.T) {
			a, text := adviceFor(t, c.objects...)
			var rules []string
			for _, f := range a.Findings {
				rules = append(rules, f.Rule)
			}
			if !slices.Equal(rules, c.want) {
				t.Errorf("got %v, want %v\n%s", rules, c.want, text)
			}
			for _, part := range c.has {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in\n%s", part, text)
				}
			}
			for _, part := range c.not {
				if strings.Contains(text, part) {
					t.Errorf("%q is in\n%s", part, text)
				}
			}
		})
	}
	elsewhere, none := cluster(t, file(t, "base.yaml"),
		"apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\nspec: {clusterIP: 10.96.0.10}",
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}\naddressType: IPv4\nendpoints: [{addresses: [192.0.2.7]}]")
	if _, err := Read(t.Context(), elsewhere, none, "kube-system", ""); err == nil || !strings.Contains(err.Error(), "has no selector: 192.0.2.7") {
		t.Errorf("a DNS outside of the cluster: %v", err)
	}
	client, objects := cluster(t)
	if _, err := Read(t.Context(), client, objects, "kube-system", ""); err == nil || !strings.Contains(err.Error(), "use --namespace and --deployment") {
		t.Errorf("no DNS at all: %v", err)
	}
}
