package observe

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespace is where everything of an observation is.
const namespace = "spotdrill-observe"

// on runs a command on a node.
func (f *foreign) on(ctx context.Context, node string, argv ...string) {
	GinkgoHelper()
	_, err := f.engine.Exec(ctx, node, nil, argv...)
	Expect(err).NotTo(HaveOccurred())
}

// grant gives the client the rights that a call of spotdrill prints.
func (f *foreign) grant(ctx SpecContext, args ...string) {
	GinkgoHelper()
	c := f.play(ctx, args...)
	Expect(c).To(gexec.Exit(0))
	f.kubectlWith(ctx, string(c.Out.Contents()), "apply", "-f", "-")
}

// left lists what is left of an observation.
func (f *foreign) left(ctx context.Context) (names string, err error) {
	return f.tryKubectl(ctx, "", "-n", namespace, "get", "jobs,daemonsets,pods,secrets", "-o", "name")
}

// gone waits until nothing is left of an observation whose client was killed.
func (f *foreign) gone(ctx SpecContext) {
	GinkgoHelper()
	Eventually(ctx, f.left).WithTimeout(time.Minute).WithPolling(time.Second).Should(BeEmpty())
}

// cordoned reports whether a node is.
func (f *foreign) cordoned(ctx context.Context, node string) (bool, error) {
	found, err := f.admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("get node %s: %w", node, err)
	}
	return found.Spec.Unschedulable, nil
}

// awaitCordon waits until the drill has cordoned a node; it must not end before.
func (f *foreign) awaitCordon(ctx SpecContext, drill call, node string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		cordoned, err := f.cordoned(ctx, node)
		if code := drill.ExitCode(); code >= 0 && !cordoned {
			return false, StopTrying(fmt.Sprintf("the drill ended with code %d before it cordoned %s", code, node))
		}
		return cordoned, err
	}).WithTimeout(beginTimeout).WithPolling(time.Second).Should(BeTrue())
}

// spreadDNS puts one CoreDNS pod on each worker: as long as both are on one node, one is deleted.
func (f *foreign) spreadDNS(ctx SpecContext) {
	GinkgoHelper()
	f.kubectl(ctx, "uncordon", worker, worker2)
	Eventually(ctx, func(ctx context.Context) ([]string, error) {
		pods, err := f.dns(ctx)
		if err != nil {
			return nil, err
		}
		var nodes []string
		for _, pod := range pods {
			nodes = append(nodes, pod.node)
		}
		if nodes[0] == nodes[1] {
			return nodes, f.admin.CoreV1().Pods("kube-system").Delete(ctx, pods[0].name, metav1.DeleteOptions{})
		}
		return nodes, nil
	}).WithTimeout(beginTimeout).WithPolling(time.Second).Should(ConsistOf(worker, worker2))
}

type dnsPod struct{ name, node string }

// dns are the two CoreDNS pods; it is an error if they are not all there and Ready.
func (f *foreign) dns(ctx context.Context) ([]dnsPod, error) {
	deployment, err := f.admin.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get the deployment of CoreDNS: %w", err)
	}
	list, err := f.admin.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		return nil, fmt.Errorf("list the CoreDNS pods: %w", err)
	}
	s := deployment.Status
	if s.ObservedGeneration < deployment.Generation || s.UpdatedReplicas != 2 || s.AvailableReplicas != 2 || s.Replicas != 2 || len(list.Items) != 2 {
		return nil, fmt.Errorf("CoreDNS is being rolled out: %d pods, %d updated, %d available", len(list.Items), s.UpdatedReplicas, s.AvailableReplicas)
	}
	pods := make([]dnsPod, 0, 2)
	for _, pod := range list.Items {
		pods = append(pods, dnsPod{pod.Name, pod.Spec.NodeName})
	}
	return pods, nil
}
