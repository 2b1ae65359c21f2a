package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/kind"
)

// Where the cluster differs from one that spotdrill makes: name, networks, no labels, another CoreDNS.
const (
	name         = "not-ours"
	controlPlane = name + "-control-plane"
	worker       = name + "-worker"  // it has the providerID of an EC2 instance
	worker2      = name + "-worker2" // it has kind's own
	podNetwork   = "10.60.0.0/16"
	proberImage  = "localhost/spotdrill-observe:test"
)

// theirCoreDNS is not the version that spotdrill's own clusters run.
var theirCoreDNS = kind.Release{Program: kind.CoreDNS, Version: "v1.12.4"}

// configuration is kind's configuration of the cluster. The first worker's providerID is as on EC2.
const configuration = `
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking: {disableDefaultCNI: true, podSubnet: ` + podNetwork + `, serviceSubnet: 10.61.0.0/16}
containerdConfigPatches:
  - |-
    [plugins."io.containerd.grpc.v1.cri"]
      restrict_oom_score_adj = true
kubeadmConfigPatches:
  - |
    kind: KubeletConfiguration
    failCgroupV1: false
  - |
    kind: KubeProxyConfiguration
    conntrack:
      maxPerCore: 0
nodes:
  - role: control-plane
  - role: worker
    kubeadmConfigPatches:
      - |
        kind: JoinConfiguration
        nodeRegistration: {kubeletExtraArgs: [{name: provider-id, value: "aws:///us-east-1a/i-0123456789abcdef0"}]}
  - role: worker
`

// spread keeps the CoreDNS pods off the control plane and, if possible, on different nodes.
const spread = `[{"op": "add", "path": "/spec/template/spec/affinity", "value": {
	"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}}]},
	"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}]}]}}}}]`

// foreign is a kind cluster that spotdrill did not make, and a client that has only the printed rights.
type foreign struct {
	engine    *engine.Engine
	provider  *kindcluster.Provider
	admin     kubernetes.Interface
	folder    string // of all files
	spotdrill string // the binary, as an absolute path

	coreDNS, localStack string // their images
}

// kubeconfig is the administrator's.
func (f *foreign) kubeconfig() string { return filepath.Join(f.folder, "admin") }

// client is the kubeconfig of the client that has only the printed rights.
func (f *foreign) client() string { return filepath.Join(f.folder, "client") }

// prepare finds the engine and gets the images; nodes is the nodes' own.
func prepare(ctx context.Context, folder, binary string) (f *foreign, nodes string, err error) {
	progress := func(format string, args ...any) { fmt.Fprintf(GinkgoWriter, format+"\n", args...) }
	f = &foreign{folder: folder}
	if f.spotdrill, err = filepath.Abs(binary); err != nil {
		return nil, "", err
	}
	if f.engine, err = engine.Detect(ctx, engine.Options{Log: progress}); err != nil {
		return nil, "", err
	}
	if err := f.engine.Apply(""); err != nil {
		return nil, "", err
	}
	use := kindcluster.ProviderWithDocker()
	if f.engine.Name == "podman" {
		use = kindcluster.ProviderWithPodman()
	}
	f.provider = kindcluster.NewProvider(use)
	images := kind.ImageOptions{Source: ".", Log: progress}
	made, err := kind.NodeImage(ctx, f.engine, images, "")
	if err != nil {
		return nil, "", fmt.Errorf("get the nodes' image: %w", err)
	}
	if f.localStack, err = kind.LocalStackImage(ctx, f.engine, images); err != nil {
		return nil, "", fmt.Errorf("get LocalStack's image: %w", err)
	}
	if f.coreDNS, err = kind.ReleaseImage(ctx, f.engine, images, theirCoreDNS); err != nil {
		return nil, "", fmt.Errorf("get the image of %s: %w", theirCoreDNS, err)
	}
	if err := f.buildProber(ctx); err != nil {
		return nil, "", err
	}
	return f, made.Image, nil
}

// create creates the cluster, in place of one that an earlier run left.
func (f *foreign) create(nodes string) error {
	if err := f.delete(); err != nil {
		return fmt.Errorf("delete the kind cluster of an earlier run: %w", err)
	}
	if err := f.provider.Create(name, kindcluster.CreateWithRawConfig([]byte(configuration)), kindcluster.CreateWithNodeImage(nodes),
		kindcluster.CreateWithKubeconfigPath(f.kubeconfig()), kindcluster.CreateWithDisplayUsage(false), kindcluster.CreateWithDisplaySalutation(false)); err != nil {
		return fmt.Errorf("create the kind cluster %s: %w", name, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig())
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	if f.admin, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("create the administrator's client: %w", err)
	}
	return nil
}

// buildProber builds the image that the probers run, as a release does.
func (f *foreign) buildProber(ctx context.Context) error {
	binary, err := os.ReadFile(f.spotdrill)
	if err != nil {
		return fmt.Errorf("the static spotdrill binary: run `make build` first: %w", err)
	}
	platform := filepath.Join(f.folder, "image", "linux")
	if err := os.MkdirAll(platform, 0o755); err != nil {
		return fmt.Errorf("make the folder of an image: %w", err)
	}
	if err := os.WriteFile(filepath.Join(platform, "spotdrill"), binary, 0o755); err != nil {
		return fmt.Errorf("copy the binary for an image: %w", err)
	}
	_, err = f.engine.Run(ctx, "build", "-q", "--build-arg", "TARGETPLATFORM=linux", "-t", proberImage, "-f", ".ci/Dockerfile", filepath.Dir(platform))
	return err
}

// loadImages puts the images of CoreDNS and of the probers on each node.
func (f *foreign) loadImages(ctx context.Context) error {
	all, err := f.provider.ListInternalNodes(name)
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for i, image := range []string{f.coreDNS, proberImage} {
		archive := filepath.Join(f.folder, fmt.Sprintf("image-%d.tar", i))
		if _, err := f.engine.Run(ctx, "save", "-o", archive, image); err != nil {
			return err
		}
		for _, node := range all {
			if err := loadArchive(node, archive); err != nil {
				return fmt.Errorf("load %s on %s: %w", image, node, err)
			}
		}
	}
	return nil
}

func loadArchive(node nodes.Node, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	return nodeutils.LoadImageArchive(node, file)
}

// delete removes the cluster, if there is one.
func (f *foreign) delete() error {
	return f.provider.Delete(name, filepath.Join(f.folder, "no-kubeconfig"))
}

// kubectl runs kubectl as the administrator, in the control plane's container, and returns what it prints.
func (f *foreign) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return f.kubectlWith(ctx, "", args...)
}

// kubectlWith is kubectl with an input.
func (f *foreign) kubectlWith(ctx context.Context, input string, args ...string) string {
	GinkgoHelper()
	printed, err := f.tryKubectl(ctx, input, args...)
	Expect(err).NotTo(HaveOccurred())
	return printed
}

func (f *foreign) tryKubectl(ctx context.Context, input string, args ...string) (string, error) {
	return f.engine.Exec(ctx, controlPlane, strings.NewReader(input), append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
}

// writeKubectl writes the kubectl that the observed commands find.
func (f *foreign) writeKubectl() error {
	folder := filepath.Join(f.folder, "bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make a folder for kubectl: %w", err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s exec -i %s kubectl --kubeconfig /etc/kubernetes/admin.conf \"$@\"\n", f.engine.Name, controlPlane)
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte(script), 0o755); err != nil {
		return fmt.Errorf("write kubectl: %w", err)
	}
	return nil
}

// peer is a node as the others reach it.
type peer struct{ Name, Pods, IP string }

// peers are the nodes; it is an error if one has no range of pods yet.
func (f *foreign) peers(ctx context.Context) ([]peer, error) {
	list, err := f.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	var all []peer
	for _, node := range list.Items {
		p := peer{Name: node.Name, Pods: node.Spec.PodCIDR}
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				p.IP = address.Address
			}
		}
		if p.Pods == "" || p.IP == "" {
			return nil, fmt.Errorf("node %s has the pod range %q and the address %q", p.Name, p.Pods, p.IP)
		}
		all = append(all, p)
	}
	if len(all) != 3 {
		return nil, fmt.Errorf("%d nodes, want 3", len(all))
	}
	return all, nil
}

// network is what networkScript is made of.
type network struct {
	Node    peer
	Peers   []peer
	Network string // of all pods
}

// networkScript is what a node runs for its pod network: ptp, and a route to each other node's pods.
// Nothing leaves but to the cluster's own networks.
var networkScript = template.Must(template.New("network").Parse(`cat >/etc/cni/net.d/10-ptp.conflist <<CNI
{"cniVersion":"1.0.0","name":"ptp","plugins":[{"type":"ptp","ipMasq":false,"ipam":{"type":"host-local","routes":[{"dst":"0.0.0.0/0"}],"ranges":[[{"subnet":"{{.Node.Pods}}"}]]}},{"type":"portmap","capabilities":{"portMappings":true}}]}
CNI
{{range .Peers}}{{if ne .Name $.Node.Name}}ip route replace {{.Pods}} via {{.IP}}
{{end}}{{end}}iptables -w -N CONFINED
iptables -w -I OUTPUT -o eth0 -j CONFINED
iptables -w -I FORWARD -o eth0 -j CONFINED
for net in {{.Network}} $(ip -4 route show dev eth0 scope link | cut -d' ' -f1) 127.0.0.0/8; do iptables -w -A CONFINED -d $net -j RETURN; done
iptables -w -A CONFINED -j DROP
`))

// wire gives the nodes their pod network.
func (f *foreign) wire(ctx context.Context, peers []peer) error {
	for _, node := range peers {
		script := new(bytes.Buffer)
		err := networkScript.Execute(script, network{node, peers, podNetwork})
		if err == nil {
			_, err = f.engine.Exec(ctx, node.Name, script, "sh", "-e")
		}
		if err != nil {
			return fmt.Errorf("wire node %s: %w", node.Name, err)
		}
	}
	return nil
}

// signed is a shell script that prints the certificate and the key of a client.
const signed = `cd /etc/kubernetes/pki
openssl req -new -newkey rsa:2048 -nodes -keyout /tmp/key -subj /CN=spotdrill 2>/dev/null |
	openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 1 -out /tmp/crt 2>/dev/null
printf '{"certificate": "%s", "key": "%s"}' "$(base64 -w0 /tmp/crt)" "$(base64 -w0 /tmp/key)"`

// writeClient writes the kubeconfig of a user who has only the printed rights, with the context "theirs".
func (f *foreign) writeClient(ctx context.Context) error {
	printed, err := f.engine.Exec(ctx, controlPlane, nil, "sh", "-ec", signed)
	if err != nil {
		return fmt.Errorf("sign a client's certificate: %w", err)
	}
	var pair struct{ Certificate, Key []byte }
	if err := json.Unmarshal([]byte(printed), &pair); err != nil {
		return fmt.Errorf("read a client's certificate: %w", err)
	}
	admin, err := clientcmd.LoadFromFile(f.kubeconfig())
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	current, found := admin.Contexts[admin.CurrentContext]
	if !found || admin.Clusters[current.Cluster] == nil {
		return errors.New("the administrator's kubeconfig names no cluster")
	}
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"theirs": admin.Clusters[current.Cluster]},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"client": {ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}},
		Contexts:       map[string]*clientcmdapi.Context{"theirs": {Cluster: "theirs", AuthInfo: "client"}},
		CurrentContext: "theirs",
	}, f.client())
}
