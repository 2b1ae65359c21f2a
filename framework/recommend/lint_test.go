package recommend

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
			d.Deployment.ManagedFields = deploy
			d.CorefileObject = &corev1.ConfigMap{}
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
		"no add-on":                           {with("kubectl-edit", owned("helm", replicas)), nil, ""},
		"nothing of others":                   {with("eks", eks, status), nil, ""},
		"a Corefile that was edited":          {with("kubectl-edit", eks), []string{"add-on-values-by-configuration"}, "the Corefile (with lameduck) by kubectl-edit"},
		"replicas by kubectl scale":           {with("eks", eks, scaled), []string{"add-on-values-by-configuration"}, "replicas by kubectl"},
		"replicas by an autoscaler":           {with("eks", eks, owned("cluster-proportional-autoscaler", replicas)), nil, ""},
		"a probe by Helm":                     {with("eks", eks, owned("helm", probe)), []string{"add-on-values-by-configuration"}, "the readiness probe by helm"},
		"the probe of another container":      {with("eks", eks, owned("helm", sidecar)), nil, ""},
		"a nodeSelector by Terraform":         {with("eks", eks, owned("Terraform", selector)), []string{"add-on-values-by-configuration"}, "nodeSelector by Terraform"},
		"several":                             {with("kubectl-edit", eks, owned("helm", selector)), []string{"add-on-values-by-configuration"}, "nodeSelector by helm; the Corefile"},
		"unreadable managedFields":            {with("eks", eks, owned("helm", `{"x":1}`)), []string{"add-on-values-by-configuration?"}, "cannot be read"},
		"a Corefile whose owners are unknown": {sound(func(d *DNS) { d.Deployment.ManagedFields = []metav1.ManagedFieldsEntry{eks} }), nil, ""},
	} {
		rules, found := rulesOf(t, c.dns)
		if !slices.Equal(rules, c.want) {
			t.Errorf("%s: %v, want %v", name, rules, c.want)
		} else if len(found) == 1 && !strings.Contains(found[0].Got, c.got) {
			t.Errorf("%s: got %q, want %q", name, found[0].Got, c.got)
		}
	}
}
