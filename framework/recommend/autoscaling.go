package recommend

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// ErrAddOnValues reports that a text has no configuration values of the EKS add-on coredns.
var ErrAddOnValues = errors.New("no configuration values of the EKS add-on coredns")

// Size is that of a cluster.
type Size struct{ Nodes, Cores int }

func (s Size) String() string { return fmt.Sprintf("%d nodes with %d cores", s.Nodes, s.Cores) }

// sizeOf counts what EKS counts. Parts of a core add up to whole ones.
func sizeOf(nodes []corev1.Node) Size {
	milli := int64(0)
	for i := range nodes {
		milli += nodes[i].Status.Capacity.Cpu().MilliValue()
	}
	return Size{Nodes: len(nodes), Cores: int((milli + 999) / 1000)}
}

// replicasFor is the number of replicas for the size of the cluster, at least two.
func (d DNS) replicasFor() int {
	return coredns.AutoScaling{Min: 2, Max: coredns.MostReplicas}.Replicas(d.Size.Nodes, d.Size.Cores)
}

// lintSize checks whether there are enough replicas for the size of the cluster.
func (d DNS) lintSize(s coredns.Settings) []Finding {
	want := d.replicasFor()
	if s.Replicas < 2 || s.Replicas >= want {
		return nil // fewer than two break another rule
	}
	f := breaks("replicas-for-cluster-size", "replicas %d, and the cluster has %s", s.Replicas, d.Size).fixedBy(want)
	f.Why = fmt.Sprintf(f.Why, coredns.NodesPerReplica, coredns.CoresPerReplica)
	return []Finding{f}
}

// autoScaling is the configuration value of the add-on that keeps at least so many replicas.
func autoScaling(replicas int) map[string]any {
	return map[string]any{"enabled": true, "minReplicas": replicas, "maxReplicas": max(coredns.MostReplicas, replicas)}
}

// AddOnValues are the configuration values of the EKS add-on coredns, as far as rules are about
// them.
type AddOnValues struct {
	AutoScaling *struct {
		Enabled     bool `json:"enabled"`
		MinReplicas int  `json:"minReplicas"`
		MaxReplicas int  `json:"maxReplicas"`
	} `json:"autoScaling"`
}

// ReadAddOnValues reads them from JSON or YAML. Errors: ErrAddOnValues.
func ReadAddOnValues(text []byte) (AddOnValues, error) {
	var v AddOnValues
	if err := yaml.Unmarshal(text, &v); err != nil {
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

// WithAddOnValues adds the findings about configuration values.
func (a Advice) WithAddOnValues(v AddOnValues) Advice {
	if v.AutoScaling == nil || !v.AutoScaling.Enabled {
		return a
	}
	scaling, size := coredns.AutoScaling{Min: v.AutoScaling.MinReplicas, Max: v.AutoScaling.MaxReplicas}, a.dns.Size
	if scaling.Replicas(size.Nodes, size.Cores) > scaling.Min {
		return a
	}
	nodes, cores := scaling.Min*coredns.NodesPerReplica, scaling.Min*coredns.CoresPerReplica
	return a.With(breaks("auto-scaling-by-size", "autoScaling from %d to %d stays at %d up to %d nodes and %d cores, and the cluster has %s",
		scaling.Min, scaling.Max, scaling.Min, nodes, cores, size))
}
