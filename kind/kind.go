// Package kind holds the kind cluster that drills run on: its configuration, and
// the images of its nodes and of LocalStack.
package kind

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
	"time"

	"golang.org/x/mod/semver"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Where the cluster's nodes claim to be, and the addresses inside the cluster.
const (
	Region = "ap-northeast-2"
	Zone   = "ap-northeast-2a"
	// PodSubnet has a range of 254 addresses for each of 1,024 nodes: a fleet has hundreds of them.
	PodSubnet     = "10.244.0.0/14"
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
// They have to lie in the folder that Config names.
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

// Config is what a cluster is made of.
type Config struct {
	NodeImage string
	// Kubernetes is the version of the nodes' image, or its minor; CoreDNS the version of CoreDNS, whose image has
	// to be loaded into the nodes.
	Kubernetes, CoreDNS string
	// Mounts is the folder with the files of Mounted, on the engine's host.
	Mounts string
	// ProxyMode is kube-proxy's mode: iptables, nftables or ipvs.
	ProxyMode string
	// MinSyncPeriod is kube-proxy's; 0 leaves Kubernetes' default.
	MinSyncPeriod time.Duration
	// Spares is the number of spare workers.
	Spares int
}

// Render returns the cluster's configuration for kind's create command or library: one control plane, one on-demand
// worker, three spot workers and the spare workers. It is an error if anything but the spare workers is missing.
func (c Config) Render() ([]byte, error) {
	for what, value := range map[string]string{
		"node image": c.NodeImage, "version of Kubernetes": c.Kubernetes, "version of CoreDNS": c.CoreDNS,
		"folder of mounted files": c.Mounts, "mode of kube-proxy": c.ProxyMode,
	} {
		if value == "" {
			return nil, fmt.Errorf("render the cluster's configuration: no %s given", what)
		}
	}
	parsed, err := template.New("cluster.yaml").Parse(clusterTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse the cluster's configuration: %w", err)
	}
	var rendered bytes.Buffer
	data := struct {
		Config
		// V1Beta3 is set if kind writes kubeadm's configuration in that version: for Kubernetes before 1.36.
		V1Beta3                                    bool
		NodeKinds                                  []string
		Nodes                                      []node
		Region, Zone, PodSubnet, ServiceSubnet     string
		AuditPolicyPath, AuditLogDir, AuditLogPath string
		Collector                                  string
	}{
		c, semver.Compare(semver.MajorMinor(c.Kubernetes), "v1.36") < 0,
		[]string{"InitConfiguration", "JoinConfiguration"},
		nodes(c.Spares), Region, Zone, PodSubnet, serviceSubnet, auditPolicyPath, auditLogDir, AuditLog, collector,
	}
	if err := parsed.Execute(&rendered, data); err != nil {
		return nil, fmt.Errorf("render the cluster's configuration: %w", err)
	}
	return rendered.Bytes(), nil
}
