// Package kind holds the kind cluster that drills run on: its configuration, and
// the images of its nodes and of LocalStack.
package kind

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"
)

// Where the cluster's nodes claim to be, and the addresses inside the cluster.
const (
	Region        = "ap-northeast-2"
	Zone          = "ap-northeast-2a"
	PodSubnet     = "10.244.0.0/16"
	ServiceSubnet = "10.96.0.0/16"
)

// What a node's label karpenter.sh/capacity-type says.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
)

//go:embed cluster.yaml
var clusterTemplate string

//go:embed audit-policy.yaml
var auditPolicy string

// Collector is the GOGC of the control plane, the kubelets and containerd, not of
// what is measured: neither of CoreDNS and kube-proxy nor of handlers. Five nodes
// share the cores of one machine: in the seconds after a notice, collecting garbage
// in all of them keeps a CoreDNS waiting that has cores of its own on real nodes.
const Collector = "400"

// Mounted returns the files that the nodes mount, by name: which requests the API
// server keeps on record, and the systemd drop-in with the Collector. They have to
// lie in the folder that Config.Mounts names.
func Mounted() map[string]string {
	return map[string]string{
		"audit-policy.yaml": auditPolicy,
		"collector.conf":    "[Service]\nEnvironment=GOGC=" + Collector + "\n",
	}
}

// Where the control plane's node has the audit policy, and the log.
const (
	auditPolicyPath = "/etc/kubernetes/audit/policy.yaml"
	auditLogDir     = "/var/log/kubernetes/audit"
	AuditLog        = auditLogDir + "/audit.log"
)

// Config is what varies between clusters.
type Config struct {
	// NodeImage is the reference of the nodes' image.
	NodeImage string
	// KubeProxyMode is "iptables", "nftables" or "ipvs".
	KubeProxyMode string
	// Mounts is the folder with the files of Mounted, on the engine's host.
	Mounts string
	// Nodes are made in this order; kind names them by role and number.
	Nodes []Node
}

// Node is one node of the cluster, which looks like an EC2 instance to its drills.
type Node struct {
	// Role is "control-plane" or "worker".
	Role string
	// CapacityType is OnDemand or Spot; empty for a control plane, so that what
	// asks for on-demand capacity does not land there.
	CapacityType string
	InstanceType string
}

// DefaultConfig returns one control plane, one on-demand worker and three spot
// workers.
func DefaultConfig(nodeImage, mounts string) Config {
	return Config{
		NodeImage:     nodeImage,
		Mounts:        mounts,
		KubeProxyMode: "iptables",
		Nodes: []Node{
			{"control-plane", "", "m7i.large"},
			{"worker", OnDemand, "m7i.large"},
			{"worker", Spot, "m7i.xlarge"},
			{"worker", Spot, "c7i.xlarge"},
			{"worker", Spot, "r7i.xlarge"},
		},
	}
}

// ProviderID returns the spec.providerID of an instance's node, in the form that
// EC2 nodes have.
func ProviderID(instance string) string { return "aws:///" + Zone + "/" + instance }

// Render returns the cluster's configuration for kind's create command or library.
func Render(config Config) ([]byte, error) {
	if config.NodeImage == "" || config.Mounts == "" {
		return nil, fmt.Errorf("render the cluster's configuration: no node image, or no folder of mounted files given")
	}
	for _, node := range config.Nodes {
		if node.Role == "" || (node.Role == "worker" && node.CapacityType == "") || node.InstanceType == "" {
			return nil, fmt.Errorf("render the cluster's configuration: node %+v leaves a field empty", node)
		}
	}
	parsed, err := template.New("cluster.yaml").Parse(clusterTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse the cluster's configuration: %w", err)
	}
	var rendered bytes.Buffer
	data := struct {
		Config
		Region, Zone, PodSubnet, ServiceSubnet     string
		AuditPolicyPath, AuditLogDir, AuditLogPath string
		Collector                                  string
	}{config, Region, Zone, PodSubnet, ServiceSubnet, auditPolicyPath, auditLogDir, AuditLog, Collector}
	if err := parsed.Execute(&rendered, data); err != nil {
		return nil, fmt.Errorf("render the cluster's configuration: %w", err)
	}
	return rendered.Bytes(), nil
}
