package recommend

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/addon"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// addOnValues are the values of CoreDNS that decide whether a query is lost, that the add-on has
// configuration values for, and where they are. The probes and the grace period are not among them:
// https://github.com/aws/containers-roadmap/issues/2595.
func (d DNS) addOnValues() []addOnValue {
	values := []addOnValue{
		{"replicas", &d.Workload, []any{"spec", "replicas"}},
		{"nodeSelector", &d.Workload, []any{"spec", "template", "spec", "nodeSelector"}},
	}
	if d.CorefileObject != nil {
		values = append(values, addOnValue{"the Corefile (with lameduck)", d.CorefileObject, []any{"data", d.CorefileKey}})
	}
	return values
}

type addOnValue struct {
	name string
	of   metav1.Object
	path []any
}

// autoscalers are parts of the names of field managers that scale a workload. By a
// HorizontalPodAutoscaler, it is the controller manager.
var autoscalers = []string{"autoscaler", "kube-controller-manager", "keda"}

// scaledBy is the autoscaler that owns the replicas, by its object or by its name as a field manager; empty if
// there is none.
func (d DNS) scaledBy() string {
	if d.Scaler != "" {
		return d.Scaler
	}
	managers, err := addon.Owners(&d.Workload, "spec", "replicas")
	if err != nil {
		return ""
	}
	return strings.Join(slices.DeleteFunc(managers, func(m string) bool { return !isAutoscaler(m) }), ", ")
}

func isAutoscaler(manager string) bool {
	return slices.ContainsFunc(autoscalers, func(part string) bool { return strings.Contains(manager, part) })
}

// lintAddOn checks whether configuration values of an EKS add-on were set by somebody else, whom an
// upgrade overrules.
func (d DNS) lintAddOn() []Finding {
	if d.Platform != EKSAddOn {
		return nil
	}
	const rule = "add-on-values-by-configuration"
	var set []string
	for _, v := range d.addOnValues() {
		by, err := addon.Owners(v.of, v.path...)
		if err != nil {
			return []Finding{unknown(rule, "managedFields cannot be read: %v", err)}
		}
		by = slices.DeleteFunc(by, func(manager string) bool { return manager == addon.Manager || isAutoscaler(manager) })
		if len(by) > 0 {
			set = append(set, fmt.Sprintf("%s by %s", v.name, strings.Join(by, ", ")))
		}
	}
	if len(set) == 0 {
		return nil
	}
	return []Finding{breaks(rule, "CoreDNS is an EKS add-on, and others than EKS set: %s", strings.Join(set, "; "))}
}

// ErrAddOnValues reports that a text has no configuration values of the EKS add-on coredns.
var ErrAddOnValues = errors.New("no configuration values of the EKS add-on coredns")

// autoScaling is the configuration value of the add-on that keeps at least so many replicas.
func autoScaling(replicas int) map[string]any {
	return map[string]any{"enabled": true, "minReplicas": replicas, "maxReplicas": max(coredns.MostReplicas, replicas)}
}

// AddOnValues are the configuration values of the EKS add-on coredns. Rules are about those that have a
// type here; addon.Schema checks all of them.
type AddOnValues struct {
	AutoScaling *struct {
		Enabled     bool `yaml:"enabled"`
		MinReplicas int  `yaml:"minReplicas"`
		MaxReplicas int  `yaml:"maxReplicas"`
	} `yaml:"autoScaling"`
	Corefile string `yaml:"corefile"`

	Affinity                  any `yaml:"affinity"`
	ComputeType               any `yaml:"computeType"`
	NodeSelector              any `yaml:"nodeSelector"`
	PodAnnotations            any `yaml:"podAnnotations"`
	PodDisruptionBudget       any `yaml:"podDisruptionBudget"`
	PodLabels                 any `yaml:"podLabels"`
	ReplicaCount              any `yaml:"replicaCount"`
	Resources                 any `yaml:"resources"`
	Tolerations               any `yaml:"tolerations"`
	TopologySpreadConstraints any `yaml:"topologySpreadConstraints"`
}

// ReadAddOnValues reads them from JSON, YAML or the answer of aws eks describe-addon. Errors:
// ErrAddOnValues; values that the add-on does not have are one.
func ReadAddOnValues(text []byte) (AddOnValues, error) {
	var v AddOnValues
	plain, err := addon.Values(text)
	if err == nil {
		err = strict.Decode("the values", plain, &v)
	}
	if err != nil {
		return v, fmt.Errorf("%w: %w", ErrAddOnValues, err)
	}
	if a := v.AutoScaling; a != nil && a.Enabled {
		// What is left out has the add-on's default.
		if a.MinReplicas == 0 {
			a.MinReplicas = 2
		}
		if a.MaxReplicas == 0 {
			a.MaxReplicas = coredns.MostReplicas
		}
		if a.MinReplicas < 1 || a.MaxReplicas < a.MinReplicas {
			return v, fmt.Errorf("%w: autoScaling from %d to %d", ErrAddOnValues, a.MinReplicas, a.MaxReplicas)
		}
	}
	return v, nil
}

// lintNext checks a Corefile of configuration values, as far as the present one does not have the same findings.
func (a Advice) lintNext(text string) (found []Finding) {
	d := a.dns
	d.Corefile, d.CorefileUnread = text, ""
	c := coredns.Read(d.source())
	if c.Refused != "" {
		found = append(found, breaks("next-pod-starts", "CoreDNS does not start with the corefile of the configuration values: %s", c.Refused))
	}
	for _, f := range slices.Concat(d.lintEnd(c, d.settings(c)), d.lintReadiness(c)) {
		if !slices.ContainsFunc(a.Findings, func(now Finding) bool { return now.Rule == f.Rule && now.Got == f.Got }) {
			f.Got = "with the corefile of the configuration values: " + f.Got
			found = append(found, f)
		}
	}
	return found
}

// WithAddOnValues adds the findings about configuration values.
func (a Advice) WithAddOnValues(v AddOnValues) Advice {
	if v.Corefile != "" {
		a = a.With(a.lintNext(v.Corefile)...)
	}
	replicas, given := v.ReplicaCount.(int)
	if scaled := v.AutoScaling != nil && v.AutoScaling.Enabled; given && replicas < 2 && !scaled && !a.violates("replicas") {
		a = a.With(breaks("replicas", "replicaCount %d of the configuration values", replicas))
	}
	if v.AutoScaling == nil || !v.AutoScaling.Enabled {
		return a
	}
	scaling, size := coredns.AutoScaling{Min: v.AutoScaling.MinReplicas, Max: v.AutoScaling.MaxReplicas}, a.dns.Size
	if scaling.Replicas(size.Nodes, size.Cores) > scaling.Min {
		return a
	}
	nodes, cores := scaling.Min*coredns.NodesPerReplica, scaling.Min*coredns.CoresPerReplica
	return a.With(breaks("auto-scaling-by-size", "autoScaling from %d to %d stays at %d up to %s and %s, and the cluster has %s",
		scaling.Min, scaling.Max, scaling.Min, history.Count(nodes, "node"), history.Count(cores, "core"), size))
}
