package recommend

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/addon"
)

const sourceAddOn = "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-field-management.html"

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
	f := Finding{
		Rule: "add-on-values-by-configuration", Source: sourceAddOn,
		Why: "an upgrade of the add-on with OVERWRITE sets them back to its own, and with NONE it fails",
		Fix: "set them as configuration values of the add-on, which every upgrade keeps; where it has no such value, upgrade with PRESERVE. `spotdrill addon diff` shows what an upgrade would change",
	}
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
	switch {
	case err != nil:
		f.Unknown, f.Got = true, "managedFields cannot be read: "+err.Error()
	case len(set) == 0:
		return nil
	default:
		f.Got = "CoreDNS is an EKS add-on, and others than EKS set: " + strings.Join(set, "; ")
	}
	return []Finding{f}
}
