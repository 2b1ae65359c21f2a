package recommend

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// Read reads the files as the function Read reads a cluster, and what only files have: a Corefile without a workload, and
// the configuration of kubelets. The error is that they have too little to judge anything.
func (m *Manifests) Read(ctx context.Context, namespace, name string) (DNS, error) {
	client, err := kubernetes.NewForConfig(m.Config())
	if err != nil {
		return DNS{}, fmt.Errorf("read the files as a cluster: %w", err)
	}
	objects, err := dynamic.NewForConfig(m.Config())
	if err != nil {
		return DNS{}, fmt.Errorf("read the files as a cluster: %w", err)
	}
	if name == "" {
		namespace = m.namespaceOf(namespace)
	}
	d, err := Read(ctx, client, objects, namespace, name)
	if err != nil && name == "" {
		d, err = m.readWithoutWorkload(ctx, client, objects, namespace, err)
	}
	if err != nil {
		return DNS{}, err
	}
	d.Manifests = m
	if d = d.WithKubelets(m.kubelets); d.KubeletsUnread != "" {
		d.KubeletsUnread = "no configuration of a kubelet is in the files"
	}
	if !d.Karpenter.Installed {
		workloads, _ := listWorkloads(ctx, client, metav1.NamespaceAll) // kinds that are in no file have none that is judged
		if d.Handlers, err = readTerminationHandlers(ctx, client, workloads, ""); err != nil {
			return DNS{}, err
		}
	}
	return d, nil
}

// readWithoutWorkload reads what can be judged of files without the workload of CoreDNS. None is why they have none, and
// the error if they have nothing else.
func (m *Manifests) readWithoutWorkload(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, namespace string, none error) (DNS, error) {
	d := DNS{WorkloadUnread: "no Deployment, StatefulSet or DaemonSet of CoreDNS is in the files", CorefileUnread: "no Corefile is in the files"}
	of, nodes, err := readNodes(ctx, client)
	if d.NodesUnread, _ = unread(err); err == nil {
		d.Size, d.Zones = sizeOf(nodes), zonesOf(nodes)
	}
	d.readSupposed(nodes)
	if d.Karpenter, err = readKarpenter(ctx, client, objects, of); err != nil {
		return DNS{}, err
	}
	var found []object
	for _, o := range m.objects {
		if text, ok := lookUp(o.Object, "data."+corefileKey); ok && o.GetKind() == "ConfigMap" && text != "" {
			found = append(found, o)
		}
	}
	slices.SortStableFunc(found, func(a, b object) int { // the one of the cluster's DNS, and the last one, come first
		rank := func(o object) int {
			if o.GetNamespace() == namespace && o.GetName() == "coredns" {
				return 0
			}
			return 1
		}
		return cmp.Compare(rank(a), rank(b))
	})
	if len(found) > 0 {
		text, _ := lookUp(found[0].Object, "data."+corefileKey)
		d.Corefile, d.CorefileUnread, d.CorefileKey = plain(text), "", corefileKey
		d.CorefileObject = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: found[0].GetNamespace(), Name: found[0].GetName()}}
		d.ConfigMap = found[0].GetNamespace() + "/" + found[0].GetName()
	}
	if d.CorefileUnread != "" && len(m.kubelets) == 0 && !d.Karpenter.Installed && len(m.values) == 0 && !m.hasHandler() {
		return DNS{}, none
	}
	return d, nil
}

// hasHandler reports whether the files have a Node Termination Handler.
func (m *Manifests) hasHandler() bool {
	nth := nodeTerminationHandler()
	return slices.ContainsFunc(m.objects, func(o object) bool {
		w, ok := asWorkload(o)
		return ok && nth.in(w) != nil
	})
}
