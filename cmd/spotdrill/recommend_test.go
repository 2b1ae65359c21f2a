package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/recommend"
	"github.com/spotdrill/spotdrill/scenarios"
)

// kubeconfig gives access to a server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
current-context: here
`, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// foreignCluster answers as the API server of a cluster that is not spotdrill's own, and
// fails the test if a request would change anything.
func foreignCluster(t *testing.T, lameduck string) string {
	t.Helper()
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{"k8s-app": "kube-dns"}}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}
	probe := &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 3, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8181)}}}
	objects := map[string]any{
		"/apis/apps/v1/namespaces/kube-system/daemonsets": appsv1.DaemonSetList{},
		"/api/v1/namespaces/kube-system/services":         corev1.ServiceList{Items: []corev1.Service{{ObjectMeta: named("kube-dns"), Spec: corev1.ServiceSpec{Selector: selector.MatchLabels}}}},
		"/apis/apps/v1/namespaces/kube-system/deployments": appsv1.DeploymentList{Items: []appsv1.Deployment{{ObjectMeta: named("coredns"), Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(2)), Selector: selector,
			Template: corev1.PodTemplateSpec{ObjectMeta: named(""), Spec: corev1.PodSpec{
				Volumes:    []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "dns"}}}}},
				Containers: []corev1.Container{{Name: "coredns", ReadinessProbe: probe, VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns"}}}},
			}},
		}}}},
		"/api/v1/namespaces/kube-system/configmaps/dns": corev1.ConfigMap{Data: map[string]string{"Corefile": ".:53 {\n  health {\n    lameduck " + lameduck + "\n  }\n  ready\n}\n"}, ObjectMeta: named("dns")},
		"/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets": policyv1.PodDisruptionBudgetList{Items: []policyv1.PodDisruptionBudget{
			{ObjectMeta: named("dns"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: ptr.To(intstr.FromInt32(1))}},
		}},
		"/api/v1/namespaces/kube-system/pods":                                  corev1.PodList{Items: []corev1.Pod{{ObjectMeta: named("a"), Spec: corev1.PodSpec{NodeName: "n"}}, {ObjectMeta: named("b"), Spec: corev1.PodSpec{NodeName: "n"}}}},
		"/apis/apps/v1/namespaces/kube-system/statefulsets":                    appsv1.StatefulSetList{},
		"/apis/autoscaling/v2/namespaces/kube-system/horizontalpodautoscalers": autoscalingv2.HorizontalPodAutoscalerList{},
		"/api/v1/nodes/n/proxy/configz":                                        map[string]any{"kubeletconfig": map[string]any{"shutdownGracePeriod": "0s"}},
		"/api":                                                                 metav1.APIVersions{},
		"/apis":                                                                metav1.APIGroupList{},
		"/api/v1/nodes":                                                        corev1.NodeList{Items: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"}}}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object, ok := objects[r.URL.Path]
		if !ok || r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfig(t, server.URL)
}

func TestRecommend(t *testing.T) {
	nobody := kubeconfig(t, "https://127.0.0.1:1")
	sound, short := foreignCluster(t, "5s"), foreignCluster(t, "1s")
	impossible := filepath.Join(t.TempDir(), "impossible.yaml")
	if err := os.WriteFile(impossible, []byte(`apiVersion: spotdrill.dev/v1alpha1
kind: Sweep
name: impossible
base: coredns-drained-lameduck-5s
set: fast
mode: all
repeats: 1
confidence: 0.95
lossRate: 0.001
lameduck: [5s]
gracePeriod: [5s]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	exported := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(exported, []byte(`apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: coredns, namespace: kube-system}
  spec: {replicas: 2, selector: {matchLabels: {k8s-app: kube-dns}}, template: {spec: {containers: [{name: coredns, args: [-conf, /etc/coredns/Corefile]}]}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	corefile, kubelet := filepath.Join(t.TempDir(), "Corefile"), filepath.Join(t.TempDir(), "kubelet.json")
	for name, text := range map[string]string{corefile: ".:53 {\n  health\n}\n", kubelet: `{"kubeletconfig": {"shutdownGracePeriod": "5s", "shutdownGracePeriodCriticalPods": "1s"}}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	standIn := func(kubeconfig string) []string {
		return []string{"--kubeconfig", kubeconfig, "--drill", "--stand-in", "--matrix", impossible, "--out", t.TempDir()}
	}
	for name, c := range map[string]struct {
		args         []string
		code         int
		stdout, want string
	}{
		"nothing to warn of": {[]string{"--kubeconfig", sound}, 0, "nothing to warn of", ""},
		"a short lameduck":   {[]string{"--kubeconfig", short}, exitFailed, "    lameduck 5s\n", "kube-system/coredns violates 1 rule"},
		"as JSON":            {[]string{"--kubeconfig", short, "--json"}, exitFailed, `"rule": "lameduck-outlasts-readiness"`, ""},
		"nobody answers":     {[]string{"--kubeconfig", nobody}, exitHarness, "", "cluster at https://127.0.0.1:1: list nodes: "},
		"no such file":       {[]string{"--kubeconfig", nobody + "-none"}, exitUsage, "", "choose one with --kubeconfig and --context"},
		"no such context":    {[]string{"--kubeconfig", nobody, "--context", "there"}, exitUsage, "", `context "there" does not exist`},
		// Were it not refused, it should not meet a cluster that is there.
		"drill of another's":    {[]string{"--kubeconfig", sound, "--drill", "--cluster", "none", "--source", t.TempDir(), "--out", t.TempDir()}, exitUsage, "", "this cluster is not spotdrill's own, so nothing was drilled; use --stand-in"},
		"confidence of 1":       {[]string{"--drill", "--confidence", "1"}, exitUsage, "", "matrix lameduck-by-readiness: confidence: 1 is not within 0.5"},
		"confidence of 0":       {[]string{"--kubeconfig", sound, "--drill", "--confidence", "0"}, exitUsage, "", "matrix lameduck-by-readiness: confidence: 0 is not within 0.5"},
		"no repeats":            {[]string{"--kubeconfig", sound, "--drill", "--repeats", "0"}, exitUsage, "", "matrix lameduck-by-readiness: repeats: 0 is not within 1 to 100"},
		"no such proxy mode":    {[]string{"--kubeconfig", sound, "--drill", "--proxy-mode", "iptabels"}, exitUsage, "", `--proxy-mode is "iptabels"`},
		"of files":              {[]string{"-f", exported, "-f", exported}, exitUnknown, "unknown replicas-for-cluster-size, budget, not-all-on-spot: ", "rules could not be evaluated for kube-system/coredns"},
		"of no objects":         {[]string{"-f", impossible}, exitUsage, "", "nothing of it is judged: Sweep\nthis exports enough of a cluster: kubectl get nodes,"},
		"of no file":            {[]string{"-f", exported + "-none"}, exitUsage, "", "read manifests: "},
		"of a Corefile alone":   {[]string{"-f", corefile}, exitFailed, "warning lameduck: ", "the Corefile of ConfigMap kube-system/coredns violates 2 rules"},
		"kubelet of a cluster":  {[]string{"--kubeconfig", sound, "--kubelet-config", kubelet}, exitFailed, "warning lameduck-within-node-shutdown: lameduck 5s, and the kubelet kills CoreDNS 4s after its SIGTERM", ""},
		"kubelet of no kubelet": {[]string{"--kubeconfig", sound, "--kubelet-config", exported}, exitUsage, "", "--kubelet-config: "},
		"as SARIF":              {[]string{"-f", corefile, "--output", "sarif"}, exitFailed, `"uri": "` + corefile + `"`, "violates 2 rules"},
		"as annotations":        {[]string{"-f", corefile, "--output", "github"}, exitFailed, "::warning file=" + corefile + ",line=2,title=lameduck::", "violates 2 rules"},
		"as JSON, too":          {[]string{"-f", corefile, "--output", "json"}, exitFailed, `"line": 2`, ""},
		"as what is no format":  {[]string{"-f", corefile, "--output", "xml"}, exitUsage, "", `--output is "xml", and must be one of text, json, sarif, github`},
		"as two formats":        {[]string{"-f", corefile, "--json", "--output", "sarif"}, exitUsage, "", "--json and --output sarif cannot be used together"},
		"of a file without -f":  {[]string{corefile}, exitUsage, "", "files are given with -f: spotdrill recommend -f " + corefile},
		"of both":               {[]string{"-f", exported, "--kubeconfig", sound}, exitUsage, "", "--filename reads files instead of a cluster"},
		"without a drill":       {[]string{"--kubeconfig", sound, "--confidence", "0.99", "--stand-in"}, exitUsage, "", "--confidence, --stand-in: requires --drill"},
		// The advice is printed nevertheless.
		"no safe setting":                   {standIn(short), exitFailed, `warning lameduck-outlasts-readiness`, "no setting of the matrix is safe\nkube-system/coredns violates 1 rule"},
		"no safe setting, and none to warn": {standIn(sound), exitFailed, "nothing to warn of", "no setting of the matrix is safe"},
		"no such matrix":                    {[]string{"--drill", "--matrix", "none.yaml"}, exitUsage, "", "read matrix: open none.yaml"},
	} {
		stdout, stderr, code := spotdrill(t, append([]string{"recommend"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.want) || c.stdout == "" && stdout != "" {
			t.Errorf("%s: exit code %d, want %d, %q and %q; reported %q and printed\n%s", name, code, c.code, c.stdout, c.want, stderr, stdout)
		}
	}
}

// More confidence takes more drills, unless their number is given.
func TestConfidenceAsksForDrills(t *testing.T) {
	const ten = "../../scenarios/sweeps/kubeadm-and-advice.yaml" // has repeats: 10
	for args, want := range map[string]int{
		"":                                       9,
		"--confidence=0.9":                       7,
		"--confidence=0.99":                      13,
		"--confidence=0.99 --repeats=2":          2,
		"--matrix=" + ten:                        10,
		"--matrix=" + ten + " --confidence=0.99": 13,
	} {
		var o drillOptions
		flags := pflag.NewFlagSet("recommend", pflag.ContinueOnError)
		o.flags(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if s, err := o.sweep(); err != nil || s.Repeats != want {
			t.Errorf("%q: %d drills of each setting, %v, want %d", args, s.Repeats, err, want)
		}
	}
}

func TestTheDrillsOfTheRulesExist(t *testing.T) {
	all := catalogue(t)
	for name, rule := range recommend.Rules() {
		if rule.Drill != "" && !slices.ContainsFunc(all, func(s scenarios.Scenario) bool { return s.Name == rule.Drill }) {
			t.Errorf("rule %s: there is no scenario %s", name, rule.Drill)
		}
	}
}

// What an error shows for an export is what the help and the page show.
func TestTheExportIsEverywhereTheSame(t *testing.T) {
	for _, page := range []string{"help.txt", "../../docs/advice.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), "kubectl get nodes,") != 1 || !strings.Contains(string(text), exports+" | spotdrill recommend -f -") {
			t.Errorf("%s does not show %s", page, exports)
		}
	}
}
