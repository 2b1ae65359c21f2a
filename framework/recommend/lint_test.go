package recommend

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owned is an entry of managedFields.
func owned(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestLintOfAnAddOn(t *testing.T) {
	const (
		replicas = `{"f:spec":{"f:replicas":{}}}`
		probe    = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"coredns\"}":{".":{},"f:readinessProbe":{"f:periodSeconds":{}}}}}}}}`
		sidecar  = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"other\"}":{".":{},"f:readinessProbe":{"f:periodSeconds":{}}}}}}}}`
		selector = `{"f:spec":{"f:template":{"f:spec":{"f:nodeSelector":{"f:pool":{}}}}}}`
		corefile = `{"f:data":{"f:Corefile":{}}}`
	)
	with := func(config string, deploy ...metav1.ManagedFieldsEntry) DNS {
		return sound(func(d *DNS) {
			d.Workload.ManagedFields = deploy
			d.Platform = platformOf(d.Workload, nil)
			if len(deploy) > 1 && deploy[0].Manager == "eks" {
				d.Platform = EKSAddOn // the rest may not be readable
			}
			d.CorefileObject, d.CorefileKey = &corev1.ConfigMap{}, "Corefile"
			if config != "" {
				d.CorefileObject.ManagedFields = []metav1.ManagedFieldsEntry{owned(config, corefile)}
			}
		})
	}
	eks := owned("eks", replicas)
	status := owned("kube-controller-manager", `{"f:status":{"f:replicas":{}}}`)
	status.Subresource = "status"
	scaled := owned("kubectl", replicas)
	scaled.Subresource = "scale"
	for name, c := range map[string]struct {
		dns  DNS
		want []string
		got  string
	}{
		"no add-on":                             {with("kubectl-edit", owned("helm", replicas)), nil, ""},
		"nothing of others":                     {with("eks", eks, status), nil, ""},
		"a Corefile that was edited":            {with("kubectl-edit", eks), []string{"add-on-values-by-configuration"}, "the Corefile (with lameduck) by kubectl-edit"},
		"replicas by kubectl scale":             {with("eks", eks, scaled), []string{"add-on-values-by-configuration"}, "replicas by kubectl"},
		"replicas by an autoscaler":             {with("eks", eks, owned("cluster-proportional-autoscaler", replicas)), nil, ""},
		"a probe by Helm":                       {with("eks", eks, owned("helm", probe)), nil, ""}, // the add-on has no value for it
		"the probe of another container":        {with("eks", eks, owned("helm", sidecar)), nil, ""},
		"replicas by a HorizontalPodAutoscaler": {with("eks", eks, owned("kube-controller-manager", replicas)), nil, ""},
		"a nodeSelector by Terraform":           {with("eks", eks, owned("Terraform", selector)), []string{"add-on-values-by-configuration"}, "nodeSelector by Terraform"},
		"several":                               {with("kubectl-edit", eks, owned("helm", selector)), []string{"add-on-values-by-configuration"}, "nodeSelector by helm; the Corefile"},
		"unreadable managedFields":              {with("eks", eks, owned("helm", `{"x":1}`)), []string{"add-on-values-by-configuration?"}, "cannot be read"},
		"a Corefile whose owners are unknown":   {sound(asAddOn, func(d *DNS) { d.Workload.ManagedFields = []metav1.ManagedFieldsEntry{eks} }), nil, ""},
	} {
		rules, found := rulesOf(t, c.dns)
		if !slices.Equal(rules, c.want) {
			t.Errorf("%s: %v, want %v", name, rules, c.want)
		} else if len(found) == 1 && !strings.Contains(found[0].Got, c.got) {
			t.Errorf("%s: got %q, want %q", name, found[0].Got, c.got)
		}
	}
}

func sized(nodes, cores int) func(*DNS) {
	return func(d *DNS) { d.Size = Size{Nodes: nodes, Cores: cores} }
}

func TestReplicasForTheSizeOfTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		size  func(*DNS)
		rules []string
		patch string
	}{
		"small":               {sized(32, 512), nil, ""},
		"a node too many":     {sized(33, 100), []string{"replicas-for-cluster-size"}, `{"autoScaling":{"enabled":true,"maxReplicas":10,"minReplicas":3}}`},
		"a core too many":     {sized(9, 513), []string{"replicas-for-cluster-size"}, `{"autoScaling":{"enabled":true,"maxReplicas":10,"minReplicas":3}}`},
		"larger than any DNS": {sized(4000, 64000), []string{"replicas-for-cluster-size"}, `{"autoScaling":{"enabled":true,"maxReplicas":10,"minReplicas":10}}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := sound(c.size, asAddOn)
			if got, _ := rulesOf(t, d); !slices.Equal(got, c.rules) {
				t.Errorf("got %v, want %v", got, c.rules)
			}
			a, err := New(d)
			if err != nil || a.Patch.EKSAddOn != c.patch {
				t.Errorf("patch %q (%v), want %q", a.Patch.EKSAddOn, err, c.patch)
			}
		})
	}
	few := sound(sized(33, 100), func(d *DNS) { d.Workload.Replicas = 3 })
	if got, _ := rulesOf(t, few); got != nil {
		t.Errorf("three for 33 nodes: %v", got)
	}
}

func TestAutoScalingOfConfigurationValues(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		size   func(*DNS)
		want   string // of the finding
	}{
		"as an operator set it":          {`{"autoScaling":{"enabled":true,"minReplicas":3,"maxReplicas":10},"nodeSelector":{"nodegroup":"on-demand"}}`, sized(48, 384), "autoScaling from 3 to 10 stays at 3 up to 48 nodes and 768 cores, and the cluster has 48 nodes with 384 cores"},
		"in a cluster that is larger":    {`{"autoScaling":{"enabled":true,"minReplicas":3,"maxReplicas":10}}`, sized(49, 384), ""},
		"as describe-addon prints them":  {`{"addon":{"addonName":"coredns","configurationValues":"{\"autoScaling\":{\"enabled\":true,\"minReplicas\":3}}"}}`, sized(48, 384), "autoScaling from 3 to 10 stays at 3"},
		"quoted, as --query prints them": {strconv.Quote(`{"autoScaling":{"enabled":true,"minReplicas":3}}`), sized(48, 384), "autoScaling from 3 to 10 stays at 3"},
		"with the add-on's defaults":     {"autoScaling:\n  enabled: true\n", sized(5, 20), "autoScaling from 2 to 10 stays at 2 up to 32 nodes and 512 cores"},
		"turned off":                     {`{"autoScaling":{"enabled":false,"minReplicas":3}}`, sized(5, 20), ""},
		"without any":                    {`{"replicaCount":4}`, sized(5, 20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := ReadAddOnValues([]byte(c.values))
			if err != nil {
				t.Fatal(err)
			}
			a, err := New(sound(c.size, func(d *DNS) { d.Workload.Replicas = 9 }))
			if err != nil {
				t.Fatal(err)
			}
			a = a.WithAddOnValues(values)
			if got := a.violates("auto-scaling-by-size"); got != (c.want != "") {
				t.Fatalf("findings: %+v", a.Findings)
			}
			if c.want != "" && !strings.Contains(a.Findings[0].Got, c.want) {
				t.Errorf("got %q, want %q", a.Findings[0].Got, c.want)
			}
		})
	}
}

// The Corefile and the replicas of configuration values are judged by the rules for those that are in force.
func TestWhatConfigurationValuesBreak(t *testing.T) {
	corefile := func(plugins string) string { return "corefile: |\n  . {\n" + plugins + "  }\n" }
	const health, ready = "    health {\n        lameduck 5s\n    }\n", "    ready\n"
	for name, c := range map[string]struct {
		values string
		want   []string
	}{
		"sound":                           {corefile(health + ready), nil},
		"no lameduck":                     {corefile("    health\n" + ready), []string{"lameduck"}},
		"a lameduck too long":             {corefile(strings.Replace(health, "5s", "25s", 1) + ready), []string{"lameduck-within-grace-period"}},
		"ready where no probe asks":       {corefile(health + "    ready :8190\n"), []string{"readiness-port"}},
		"a block on one line":             {corefile("    health { lameduck 5s }\n" + ready), []string{"next-pod-starts"}},
		"one replica":                     {"replicaCount: 1\n", []string{"replicas"}},
		"one replica, and an autoscaler":  {"replicaCount: 1\nautoScaling: {enabled: true, minReplicas: 3}\n", []string{"auto-scaling-by-size"}},
		"three replicas, and no Corefile": {"replicaCount: 3\ncorefile: null\n", nil},
	} {
		values, err := ReadAddOnValues([]byte(c.values))
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(sound(sized(2, 8)))
		if err != nil {
			t.Fatal(err)
		}
		var rules []string
		for _, f := range a.WithAddOnValues(values).Findings {
			rules = append(rules, f.Rule)
		}
		if !slices.Equal(rules, c.want) {
			t.Errorf("%s: %v, want %v", name, rules, c.want)
		}
	}
}

func TestConfigurationValuesThatAreNone(t *testing.T) {
	for name, text := range map[string]string{
		"no object":              "[]",
		"no text":                "{",
		"a word for a number":    `{"autoScaling":{"enabled":true,"minReplicas":"three"}}`,
		"less than none":         `{"autoScaling":{"enabled":true,"minReplicas":-1}}`,
		"a maximum below it":     `{"autoScaling":{"enabled":true,"minReplicas":5,"maxReplicas":4}}`,
		"a value that it lacks":  `{"autoscaling":{"enabled":true}}`,
		"another answer of AWS":  `{"cluster":{"name":"a"}}`,
		"above the default most": `{"autoScaling":{"enabled":true,"minReplicas":11}}`,
	} {
		if _, err := ReadAddOnValues([]byte(text)); !errors.Is(err, ErrAddOnValues) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadAddOnValues(f *testing.F) {
	f.Add([]byte(`{"autoScaling":{"enabled":true,"minReplicas":3,"maxReplicas":10}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := ReadAddOnValues(text)
		if err != nil && !errors.Is(err, ErrAddOnValues) {
			t.Error(err)
		}
		if a := values.AutoScaling; err == nil && a != nil && a.Enabled && (a.MinReplicas < 1 || a.MaxReplicas < a.MinReplicas) {
			t.Errorf("%+v", *a)
		}
	})
}

func TestSizeOfACluster(t *testing.T) {
	node := func(cpu string) corev1.Node {
		return corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	if got := sizeOf([]corev1.Node{node("2"), node("1500m"), node("1")}); got != (Size{Nodes: 3, Cores: 5}) {
		t.Errorf("got %+v", got)
	}
}
