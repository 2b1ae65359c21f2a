// Package vpccni is a stand-in for the EKS add-on vpc-cni, as far as its configuration values
// decide about the traffic of pods with security groups of their own.
//
// Real are the DaemonSet aws-node, its environment variables, the versions whose schemas know
// them, the sysctl that its init container writes, and the packets that are dropped. Emulated
// is why they are dropped: there are no network interfaces of EC2 here. Instead, nftables drops
// on the pod's node what does not arrive with wrong values on EKS.
package vpccni

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// The configuration values, environment variables of aws-node. Each must be "true" for pods with
// security groups of their own.
const (
	// PodENI is whether pods can have a network interface of their own. Without it nothing
	// reaches them.
	PodENI = "ENABLE_POD_ENI"
	// DisableEarlyDemux is whether the init container turns net.ipv4.tcp_early_demux off. If it
	// is on, no TCP connection from their own node reaches the pods: the kubelet's probes fail.
	DisableEarlyDemux = "DISABLE_TCP_EARLY_DEMUX"
)

// Annotation is what the controller of EKS puts on pods with a network interface of their own.
const Annotation = "vpc.amazonaws.com/pod-eni"

// The versions of the add-on. Former knows no DisableEarlyDemux, as EKS's did up to v1.12.0: what
// is not in a version's schema is not part of what EKS applies.
const (
	Former = "v1.11.0"
	Next   = "v1.12.6"
)

// DaemonSet is the name of the add-on's DaemonSet.
const DaemonSet = "aws-node"

// The containers that read the values.
const (
	initContainer = "aws-vpc-cni-init"
	container     = "aws-node"
)

//go:embed manifest.yaml schemas/*.json
var files embed.FS

// Schema is the JSON schema of a version's configuration values.
func Schema(version string) ([]byte, error) {
	text, err := files.ReadFile("schemas/" + version + ".json")
	if err != nil {
		return nil, fmt.Errorf("schema of vpc-cni %s: %w", version, err)
	}
	return text, nil
}

// defaults are the values that a version applies if nobody configures any.
func defaults(version string) (map[string]string, error) {
	text, err := Schema(version)
	if err != nil {
		return nil, err
	}
	var schema struct {
		Properties struct {
			Env struct {
				Properties map[string]struct {
					Default string `json:"default"`
				} `json:"properties"`
			} `json:"env"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, fmt.Errorf("parse the schema of vpc-cni %s: %w", version, err)
	}
	out := map[string]string{}
	for name, value := range schema.Properties.Env.Properties {
		out[name] = value.Default
	}
	return out, nil
}

// Manifest is what EKS applies for a version of the add-on: the DaemonSet in a namespace, with the
// product's image, and what it needs.
func Manifest(version, namespace, image string) (string, error) {
	env, err := defaults(version)
	if err != nil {
		return "", err
	}
	text, err := files.ReadFile("manifest.yaml")
	if err != nil {
		return "", fmt.Errorf("manifest of vpc-cni: %w", err)
	}
	lists := map[string][]string{
		"INIT_ENV": {`{name: ENABLE_IPV6, value: "false"}`}, // in all versions: EKS would own an empty list
		"ENV":      {"{name: MY_NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}", "{name: MY_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}"},
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		into := "ENV"
		if name == DisableEarlyDemux {
			into = "INIT_ENV"
		}
		lists[into] = append(lists[into], fmt.Sprintf("{name: %s, value: %q}", name, env[name]))
	}
	values := map[string]string{"NAMESPACE": namespace, "IMAGE": image, "VERSION": version}
	for name, list := range lists {
		values[name] = "[" + strings.Join(list, ", ") + "]"
	}
	return os.Expand(string(text), func(name string) string { return values[name] }), nil
}

// Patch is the strategic merge patch that sets both values to "true", as kubectl set env does.
func Patch() []byte {
	set := func(name, variable string) string {
		return fmt.Sprintf(`[{"name":%q,"env":[{"name":%q,"value":"true"}]}]`, name, variable)
	}
	return fmt.Appendf(nil, `{"spec":{"template":{"spec":{"initContainers":%s,"containers":%s}}}}`, set(initContainer, DisableEarlyDemux), set(container, PodENI))
}
