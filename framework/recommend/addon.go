package recommend

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/addon"
)

// addOnValues are the values of CoreDNS that decide whether a query is lost, and where they are.
func (d DNS) addOnValues() []addOnValue {
	pod := []any{"spec", "template", "spec"}
	in := func(path ...any) []any { return append(slices.Clone(pod), path...) }
	values := []addOnValue{
		{"replicas", d.Deployment, []any{"spec", "replicas"}},
		{"nodeSelector", d.Deployment, in("nodeSelector")},
		{"terminationGracePeriodSeconds", d.Deployment, in("terminationGracePeriodSeconds")},
	}
	if c := d.container(); c != nil {
		values = append(values, addOnValue{"the readiness probe", d.Deployment, in("containers", addon.Item(c.Name), "readinessProbe")})
	}
	if d.CorefileObject != nil {
		values = append(values, addOnValue{"the Corefile (with lameduck)", d.CorefileObject, []any{"data", "Corefile"}})
	}
	return values
}

type addOnValue struct {
	name string
	of   metav1.Object
	path []any
}

// lintAddOn checks whether values of an EKS add-on were set by somebody else, whom an upgrade
// overrules.
func (d DNS) lintAddOn() []Finding {
	managers, err := addon.Owners(d.Deployment, "spec")
	if err == nil && !slices.Contains(managers, addon.Manager) {
		return nil // no add-on
	}
	var set []string
	for _, v := range d.addOnValues() {
		var by []string
		if by, err = addon.Owners(v.of, v.path...); err != nil {
			break
		}
		by = slices.DeleteFunc(by, func(manager string) bool {
			return manager == addon.Manager || strings.Contains(manager, "autoscaler")
		})
		if len(by) > 0 {
			set = append(set, fmt.Sprintf("%s by %s", v.name, strings.Join(by, ", ")))
		}
	}
	const rule = "add-on-values-by-configuration"
	switch {
	case err != nil:
		return []Finding{unknown(rule, "managedFields cannot be read: %v", err)}
	case len(set) > 0:
		return []Finding{breaks(rule, "CoreDNS is an EKS add-on, and others than EKS set: %s", strings.Join(set, "; "))}
	}
	return nil
}
