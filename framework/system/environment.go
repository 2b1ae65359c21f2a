package system

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/kubeproxy"
	"github.com/spotdrill/spotdrill/kind"
)

// proxyImageKey is the part of the environment with the image of kube-proxy, next to its mode.
const proxyImageKey = "kube-proxy-image"

// environment collects what a reader must know to repeat the run, and what its
// figures depend on. What cannot be found out is omitted; a report that lacks what a
// repetition needs is rejected when it is verified.
func (s *System) environment(ctx context.Context, from images) map[string]string {
	env := map[string]string{
		"cluster": s.opts.Cluster, "node-image": from.nodes.Image, "localstack-image": from.localstack, "spotdrill-image": s.Image,
		"engine": s.engine.Name, "kube-proxy": string(s.opts.ProxyMode),
		"engine-cpu-weight": s.parentWeight, "priority": s.priority, "processors": s.awake, "node-cpu-weights": s.Cluster.Weights(ctx), "node-system": s.NodeSystem.Words,
	}
	if v, err := s.engine.Version(ctx); err == nil {
		env["engine"] += " " + v
	}
	if chosen := s.opts.Versions.Flags(); chosen != "" {
		env["versions"] = chosen // reports.VersionsOf
	}
	env["account"] = cloud.Account
	if p := s.opts.Platform; p.Name != "" {
		env[history.PlatformKey], env[history.PlatformLacksKey] = p.Name, p.Lacks
	}
	// A name can be moved to another image, an id cannot.
	for name, ref := range map[string]string{"node-image-id": from.nodes.Image, "localstack-image-id": from.localstack, "coredns-image-id": from.dns.held} {
		if id, err := s.engine.Run(ctx, "image", "inspect", "--format", "{{.Id}}", ref); err == nil {
			env[name] = id
		}
	}
	if list, err := s.Cluster.Clientset.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil && len(list.Items) > 0 {
		info := list.Items[0].Status.NodeInfo
		env["kubernetes"], env["kernel"], env["container-runtime"] = info.KubeletVersion, info.KernelVersion, info.ContainerRuntimeVersion
		env["cores"] = list.Items[0].Status.Capacity.Cpu().String()
	}
	env["kind"], env["localstack"] = kind.LibraryVersion(), kind.LocalStackVersion()
	if image, err := kubeproxy.Image(ctx, s.Cluster.Clientset); err == nil {
		env[proxyImageKey] = image
	}
	if pods, err := s.Cluster.Clientset.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "component=etcd"}); err == nil && len(pods.Items) > 0 {
		env["etcd"] = pods.Items[0].Spec.Containers[0].Image
	}
	if dns, err := s.Cluster.Clientset.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{}); err == nil {
		for _, c := range dns.Spec.Template.Spec.Containers {
			env["coredns"] = c.Image
		}
	}
	return env
}
