package handler

import (
	"regexp"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Settings is what a handler must know about the system that it runs in. Each field
// except APIHost, APIPort, Installation and Workers is the value of a placeholder: see Placeholders.
type Settings struct {
	QueueURL        string
	QueueName       string
	Endpoint        string // of the AWS API, for pods
	Region          string
	ClusterName     string
	ClusterEndpoint string // of the Kubernetes API, for pods
	Image           string // the handler's
	// AMI, Subnet and SecurityGroup are those of instances in LocalStack's EC2. OtherAMI is
	// another image, which makes them outdated.
	AMI           string
	OtherAMI      string
	Subnet        string
	SecurityGroup string

	// Installation is the name of one next to that of the handler under test; empty for that one.
	// Its namespace and its credentials are its own.
	Installation string

	// APIHost and APIPort are where the handler's pods find the Kubernetes API: at the
	// recording proxy. Empty: at the API server.
	APIHost string
	APIPort string

	// Workers are those that the handler manages.
	Workers []Worker
}

// Worker is a node of the cluster, for the manifests of each worker.
type Worker struct {
	Node         string
	Instance     string // id of its EC2 instance
	ProviderID   string // aws:///ZONE/INSTANCE
	InstanceType string
	Capacity     string // spot or on-demand
	Zone         string
	// CPU, Memory and Pods are the node's capacity, as quantities.
	CPU    string
	Memory string
	Pods   string
}

// DefaultNamespace is the namespace of the handler under test.
const DefaultNamespace = "spotdrill-handler"

// namespace is that of the handler.
func (s Settings) namespace() string {
	if s.Installation == "" {
		return DefaultNamespace
	}
	return "spotdrill-" + s.Installation + "-handler"
}

// accessKey is the id of the handler's AWS credentials, by which the recording proxy knows which
// handler calls.
func (s Settings) accessKey() string {
	if s.Installation == "" {
		return "test" // LocalStack accepts any
	}
	return history.AccessKeyPrefix + s.Installation
}

// CredentialsSecret is the Secret that Install creates in the namespace, with the
// keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: use it with envFrom.
const CredentialsSecret = "aws-credentials"

// Placeholders lists the placeholders that manifests may contain, as ${NAME}.
func Placeholders() []string {
	return []string{
		"QUEUE_URL", "QUEUE_NAME", "AWS_ENDPOINT", "AWS_REGION", "CLUSTER_NAME", "CLUSTER_ENDPOINT",
		"IMAGE", "NAMESPACE", "AMI_ID", "OTHER_AMI_ID", "SUBNET_ID", "SECURITY_GROUP_ID",
	}
}

// WorkerPlaceholders lists the additional placeholders of manifests for each worker.
// NOW is the time of rendering, in the format of conditions.
func WorkerPlaceholders() []string {
	return []string{
		"NODE_NAME", "INSTANCE_ID", "PROVIDER_ID", "INSTANCE_TYPE", "CAPACITY_TYPE", "ZONE",
		"CPU", "MEMORY", "PODS", "NOW",
	}
}

// value is the value of a placeholder; split has refused unknown ones.
func (s Settings) value(placeholder string) string {
	switch placeholder {
	case "QUEUE_URL":
		return s.QueueURL
	case "QUEUE_NAME":
		return s.QueueName
	case "AWS_ENDPOINT":
		return s.Endpoint
	case "AWS_REGION":
		return s.Region
	case "CLUSTER_NAME":
		return s.ClusterName
	case "CLUSTER_ENDPOINT":
		return s.ClusterEndpoint
	case "IMAGE":
		return s.Image
	case "AMI_ID":
		return s.AMI
	case "OTHER_AMI_ID":
		return s.OtherAMI
	case "SUBNET_ID":
		return s.Subnet
	case "SECURITY_GROUP_ID":
		return s.SecurityGroup
	default: // NAMESPACE
		return s.namespace()
	}
}

// valueFor is value for the manifests of a worker.
func (s Settings) valueFor(w Worker) func(placeholder string) string {
	return func(placeholder string) string {
		switch placeholder {
		case "NODE_NAME":
			return w.Node
		case "INSTANCE_ID":
			return w.Instance
		case "PROVIDER_ID":
			return w.ProviderID
		case "INSTANCE_TYPE":
			return w.InstanceType
		case "CAPACITY_TYPE":
			return w.Capacity
		case "ZONE":
			return w.Zone
		case "CPU":
			return w.CPU
		case "MEMORY":
			return w.Memory
		case "PODS":
			return w.Pods
		case "NOW":
			return time.Now().UTC().Format(time.RFC3339)
		}
		return s.value(placeholder)
	}
}

var placeholder = regexp.MustCompile(`\$\{([A-Za-z0-9_]*)\}`)

// fill replaces every placeholder in text.
func fill(text string, value func(placeholder string) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		return value(placeholder.FindStringSubmatch(found)[1])
	})
}
