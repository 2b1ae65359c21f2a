package handler

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Settings is what a handler must know about the system that it runs in. Each field
// except Account, APIHost, APIPort, Installation, Lane and Workers is the value of a placeholder, see values.
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
	// Lane names one of several installations of the handler under test, each in a lane of its own; empty for the only one.
	// Account is the lane's AWS account, and NodeSelector selects its nodes by their labels.
	Lane, Account, NodeSelector string

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
	if of := cmp.Or(s.Lane, s.Installation); of != "" {
		return "spotdrill-" + of + "-handler"
	}
	return DefaultNamespace
}

// AccessKey is the id of the handler's AWS credentials, by which the recording proxy knows which
// handler calls.
func (s Settings) AccessKey() string {
	if s.Installation == "" {
		return cmp.Or(s.Account, "test") // LocalStack accepts any
	}
	return history.AccessKeyPrefix + s.Installation
}

// CredentialsSecret is the Secret that Install creates in the namespace, with the
// keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: use it with envFrom.
const CredentialsSecret = "aws-credentials"

// values are the placeholders that manifests may contain, as ${NAME}, and their values.
func (s Settings) values() [][2]string {
	return [][2]string{
		{"QUEUE_URL", s.QueueURL},
		{"QUEUE_NAME", s.QueueName},
		{"AWS_ENDPOINT", s.Endpoint},
		{"AWS_REGION", s.Region},
		{"CLUSTER_NAME", s.ClusterName},
		{"CLUSTER_ENDPOINT", s.ClusterEndpoint},
		{"IMAGE", s.Image},
		{"NAMESPACE", s.namespace()},
		{"NODE_SELECTOR", s.NodeSelector},
		{"AMI_ID", s.AMI},
		{"OTHER_AMI_ID", s.OtherAMI},
		{"SUBNET_ID", s.Subnet},
		{"SECURITY_GROUP_ID", s.SecurityGroup},
	}
}

// values are the additional placeholders of manifests for each worker. NOW is the time of
// rendering, in the format of conditions.
func (w Worker) values() [][2]string {
	return [][2]string{
		{"NODE_NAME", w.Node},
		{"INSTANCE_ID", w.Instance},
		{"PROVIDER_ID", w.ProviderID},
		{"INSTANCE_TYPE", w.InstanceType},
		{"CAPACITY_TYPE", w.Capacity},
		{"ZONE", w.Zone},
		{"CPU", w.CPU},
		{"MEMORY", w.Memory},
		{"PODS", w.Pods},
		{"NOW", time.Now().UTC().Format(time.RFC3339)},
	}
}

// valuesFor are the placeholders of manifests for a worker.
func (s Settings) valuesFor(w Worker) [][2]string { return append(s.values(), w.values()...) }

// namesOf are the names of placeholders.
func namesOf(values [][2]string) []string {
	var names []string
	for _, v := range values {
		names = append(names, v[0])
	}
	return names
}

var placeholder = regexp.MustCompile(`\$\{([A-Za-z0-9_]*)\}`)

// fill replaces every placeholder in text; split has refused unknown ones.
func fill(text string, values [][2]string) string {
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, "${"+v[0]+"}", v[1])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
