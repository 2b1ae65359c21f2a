// Package kind holds the kind cluster that drills run on: its configuration, and
// the images of its nodes and of LocalStack.
package kind

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Where the cluster's nodes claim to be, and the addresses inside the cluster.
const (
	Region        = "ap-northeast-2"
	Zone          = "ap-northeast-2a"
	PodSubnet     = "10.244.0.0/16"
	serviceSubnet = "10.96.0.0/16"
)

//go:embed cluster.yaml
var clusterTemplate string

//go:embed audit-policy.yaml
var auditPolicy string

// collector is the GOGC of the control plane, the kubelets and containerd, not of
// what is measured: neither of CoreDNS and kube-proxy nor of handlers. Five nodes
// share the cores of one machine: in the seconds after a notice, collecting garbage
// in all of them keeps a CoreDNS waiting that has cores of its own on real nodes.
const collector = "400"

// kubeletSliceWeight is the CPU weight of the kubelet and all pods in a node, where
// systemd's default is 100: they come before containerd, which would otherwise starve
// CoreDNS while it creates a pod. See framework/cluster/weights.go for all levels.
const kubeletSliceWeight = "1600"

// Mounted returns the files that the nodes mount, by name: which requests the API
// server keeps on record, and the systemd drop-ins with the collector and the weights.
// They have to lie in the folder that Render is given.
func Mounted() map[string]string {
	return map[string]string{
		"audit-policy.yaml":  auditPolicy,
		"collector.conf":     "[Service]\nEnvironment=GOGC=" + collector + "\n",
		"kubelet-slice.conf": "[Slice]\nCPUWeight=" + kubeletSliceWeight + "\n",
	}
}

// Where the control plane's node has the audit policy, and the log.
const (
	auditPolicyPath = "/etc/kubernetes/audit/policy.yaml"
	auditLogDir     = "/var/log/kubernetes/audit"
	AuditLog        = auditLogDir + "/audit.log"
)

// ProviderID returns the spec.providerID of an instance's node, in the form that
// EC2 nodes have.
func ProviderID(zone, instance string) string { return "aws:///" + zone + "/" + instance }

// node is one node of the cluster, which looks like an EC2 instance to its drills.
type node struct {
	Role string // control-plane or worker
	// CapacityType is history.OnDemand or history.Spot; empty for a control plane, so that what
	// requests on-demand capacity does not land there.
	CapacityType string
	InstanceType string
	// Spare is set for a worker that is no instance until one is launched.
	Spare bool
}

// SpareLabel marks the nodes of spare workers.
const SpareLabel = "spotdrill.dev/spare"

// nodes are made in this order; kind names them by role and number.
func nodes(spares int) []node {
	nodes := []node{
		{Role: "control-plane", InstanceType: "m7i.large"},
		{Role: "worker", CapacityType: history.OnDemand, InstanceType: "m7i.large"},
		{Role: "worker", CapacityType: history.Spot, InstanceType: "m7i.xlarge"},
		{Role: "worker", CapacityType: history.Spot, InstanceType: "c7i.xlarge"},
		{Role: "worker", CapacityType: history.Spot, InstanceType: "r7i.xlarge"},
	}
	for range spares {
		nodes = append(nodes, node{Role: "worker", Spare: true})
	}
	return nodes
}

// Render returns the cluster's configuration for kind's create command or library:
// one control plane, one on-demand worker, three spot workers and the spare workers, all
// of the image, with kube-proxy in the mode iptables, nftables or ipvs. Mounts is the
// folder with the files of Mounted, on the engine's host. MinSyncPeriod is kube-proxy's; 0 leaves Kubernetes' default.
func Render(nodeImage, mounts, proxyMode string, minSyncPeriod time.Duration, spares int) ([]byte, error) {
	if nodeImage == "" || mounts == "" || proxyMode == "" {
		return nil, fmt.Errorf("render the cluster's configuration: no node image, no folder of mounted files, or no mode of kube-proxy given")
	}
	parsed, err := template.New("cluster.yaml").Parse(clusterTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse the cluster's configuration: %w", err)
	}
	var rendered bytes.Buffer
	data := struct {
		NodeImage, Mounts, KubeProxyMode           string
		Nodes                                      []node
		Region, Zone, PodSubnet, ServiceSubnet     string
		AuditPolicyPath, AuditLogDir, AuditLogPath string
		Collector                                  string
		MinSyncPeriod                              time.Duration
	}{nodeImage, mounts, proxyMode, nodes(spares), Region, Zone, PodSubnet, serviceSubnet, auditPolicyPath, auditLogDir, AuditLog, collector, minSyncPeriod}
	if err := parsed.Execute(&rendered, data); err != nil {
		return nil, fmt.Errorf("render the cluster's configuration: %w", err)
	}
	return rendered.Bytes(), nil
}
