package recommend

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/addon"
)

// Platform is who installs and manages a cluster's DNS; empty if nobody but its operators.
type Platform string

// The platforms.
const (
	EKSAddOn  Platform = "EKS add-on"
	EKSAuto   Platform = "EKS Auto Mode"
	AKS       Platform = "AKS"
	GKE       Platform = "GKE"
	K3s       Platform = "k3s"
	OpenShift Platform = "OpenShift"
	KOps      Platform = "kOps"
	RKE2      Platform = "RKE2"
	Helm      Platform = "Helm"
)

// keeping is which changes a platform keeps.
type keeping struct {
	// note is what it does to the others, and source where that comes from.
	note, source string
	// corefile, workload and budget report whether it keeps changes to the ConfigMap of the
	// Corefile, to the Deployment or DaemonSet, and a PodDisruptionBudget that is added.
	corefile, workload, budget bool
	// custom is the ConfigMap for additions to the Corefile, which it keeps; empty if it has none.
	custom string
}

var platforms = map[Platform]keeping{
	"": {corefile: true, workload: true, budget: true},
	EKSAddOn: {
		note:   "EKS keeps what is set as configuration values of the add-on; an upgrade with OVERWRITE reverts other changes, an upgrade with PRESERVE keeps them",
		source: "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-field-management.html",
		budget: true,
	},
	EKSAuto: {
		note:   "CoreDNS runs on each node as a service of the system, managed by EKS, not in pods: the rules are not applicable",
		source: "https://docs.aws.amazon.com/eks/latest/userguide/automode.html",
	},
	AKS: {
		note:   "AKS reverts changes to the Deployment and to the ConfigMap coredns; it keeps the ConfigMap coredns-custom, and a PodDisruptionBudget of yours",
		source: "https://learn.microsoft.com/en-us/azure/aks/coredns-custom",
		budget: true, custom: "coredns-custom",
	},
	GKE: {
		note:   "GKE manages the DNS of the cluster, kube-dns or Cloud DNS, and reverts changes: there is no Corefile, and the rules for one are not applicable",
		source: "https://cloud.google.com/kubernetes-engine/docs/how-to/kube-dns",
		budget: true,
	},
	K3s: {
		note:   "k3s writes the Deployment and the ConfigMap coredns again when it starts; it keeps the ConfigMap coredns-custom, and a PodDisruptionBudget of yours",
		source: "https://docs.k3s.io/networking/networking-services#coredns",
		budget: true, custom: "coredns-custom",
	},
	OpenShift: {
		note:   "the dns-operator reverts changes to the DaemonSet and to its Corefile; it keeps the resource dnses.operator.openshift.io/default, such as spec.nodePlacement",
		source: "https://docs.redhat.com/en/documentation/openshift_container_platform/4.17/html/networking_operators/dns-operator",
	},
	KOps: {
		note:   "kOps writes the Deployment and the ConfigMap again when it is upgraded; it keeps spec.kubeDNS of the cluster, such as externalCoreFile",
		source: "https://kops.sigs.k8s.io/cluster_spec/#kubedns", corefile: true, workload: true, budget: true,
	},
	RKE2: {
		note:   "RKE2 installs its chart rke2-coredns again when it is upgraded; it keeps the values of a HelmChartConfig of that name: set there what is patched here",
		source: "https://docs.rke2.io/networking/networking_services", corefile: true, workload: true, budget: true,
	},
	Helm: {
		note:   "helm upgrade writes the Deployment and the ConfigMap again from the values of the release: set there what is patched here",
		source: "https://github.com/coredns/helm", corefile: true, workload: true, budget: true,
	},
}

// String is the platform and what it does to changes; empty if there is none.
func (p Platform) String() string {
	if p == "" {
		return ""
	}
	return string(p) + ": " + platforms[p].note + " (" + platforms[p].source + ")"
}

// platformOf recognises the platform by what it marks its objects with. An empty workload is a cluster
// without pods that answer its DNS.
func platformOf(w Workload, nodes []corev1.Node) Platform {
	onNodes := func(label string, values ...string) bool {
		return slices.ContainsFunc(nodes, func(n corev1.Node) bool {
			value, ok := n.Labels[label]
			return ok && (len(values) == 0 || slices.Contains(values, value))
		})
	}
	marked := func(prefix string) bool {
		for _, marks := range []map[string]string{w.Labels, w.Annotations} {
			for key := range marks {
				if strings.HasPrefix(key, prefix) {
					return true
				}
			}
		}
		return false
	}
	managers, err := addon.Owners(&metav1.ObjectMeta{ManagedFields: w.ManagedFields}, "spec")
	_, reconciled := w.Labels["addonmanager.kubernetes.io/mode"]
	switch {
	case w.Kind == "" && onNodes(computeTypeLabel, "auto"):
		return EKSAuto
	case w.Kind == "" && onNodes("cloud.google.com/gke-nodepool"):
		return GKE
	case w.Kind == "":
		return ""
	case err != nil && onNodes("eks.amazonaws.com/nodegroup"), slices.Contains(managers, addon.Manager),
		len(w.ManagedFields) == 0 && w.Labels["eks.amazonaws.com/component"] != "": // kubectl get leaves managedFields out
		return EKSAddOn
	case w.Labels["kubernetes.azure.com/managedby"] == "aks", reconciled && onNodes("kubernetes.azure.com/cluster"):
		return AKS
	case w.Namespace == "kube-system" && w.Name == "kube-dns" && !w.isCoreDNS(), reconciled && onNodes("cloud.google.com/gke-nodepool"):
		return GKE
	case marked("objectset.rio.cattle.io/") && (onNodes("node.kubernetes.io/instance-type", "k3s") || onNodes("k3s.io/hostname") || k3sNodes(nodes)):
		return K3s
	case marked("dns.operator.openshift.io/"), w.Namespace == openShiftNamespace:
		return OpenShift
	case marked("addon.kops.k8s.io/"):
		return KOps
	case w.Annotations["meta.helm.sh/release-name"] == "rke2-coredns":
		return RKE2
	case marked("meta.helm.sh/release-name"), w.Labels["app.kubernetes.io/managed-by"] == "Helm":
		return Helm
	}
	return ""
}

// k3sNodes reports whether the kubelets are those of k3s.
func k3sNodes(nodes []corev1.Node) bool {
	return slices.ContainsFunc(nodes, func(n corev1.Node) bool { return strings.Contains(n.Status.NodeInfo.KubeletVersion, "+k3s") })
}

// keptBy is where the platform keeps the fix of a rule, if that is not where it belongs otherwise.
func (d DNS) keptBy(rule string) string {
	keeps := platforms[d.Platform]
	switch rule {
	case "health-plugin", "lameduck", "lameduck-outlasts-readiness", "ready-plugin", "health-and-ready-ports":
		if keeps.custom != "" {
			return fmt.Sprintf("; on %s in ConfigMap %s/%s, in a key that ends with .override", string(d.Platform), d.Workload.Namespace, keeps.custom)
		}
	case "lameduck-within-grace-period":
		if keeps.custom != "" {
			return fmt.Sprintf("; on %s only lameduck, in ConfigMap %s/%s, in a key that ends with .override", string(d.Platform), d.Workload.Namespace, keeps.custom)
		}
	case "readiness-probe", "readiness-asks-ready", "readiness-port", "liveness-port", "replicas", "rollout-keeps-pods", "replicas-for-cluster-size", "not-all-on-spot", "not-all-on-one-node", "not-all-in-one-zone":
	default:
		return ""
	}
	if keeps.workload || d.Platform == EKSAddOn {
		return ""
	}
	return "; but " + string(d.Platform) + " reverts this"
}
