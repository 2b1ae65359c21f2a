package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

func TestTheConfigurationIsKinds(t *testing.T) {
	var c v1alpha4.Cluster
	if err := yaml.UnmarshalStrict([]byte(configuration), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 3 || c.Networking.PodSubnet != podNetwork || len(c.Nodes[1].KubeadmConfigPatches) != 1 {
		t.Errorf("read %+v", c)
	}
}

func TestThePatchOfCoreDNS(t *testing.T) {
	var patches []struct {
		Op, Path string
		Value    corev1.Affinity
	}
	decoder := json.NewDecoder(strings.NewReader(spread))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&patches); err != nil {
		t.Fatal(err)
	}
	if len(patches) != 1 || patches[0].Value.PodAntiAffinity == nil || patches[0].Value.NodeAffinity == nil {
		t.Errorf("read %+v", patches)
	}
}

func TestTheManifestOfTheCache(t *testing.T) {
	text := fmt.Sprintf(cache, "10.61.0.10", worker, "coredns:1")
	_, second, _ := strings.Cut(text, "---")
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(second), &pod); err != nil {
		t.Fatal(err)
	}
	if got := pod.Spec.Containers[0].ReadinessProbe.TCPSocket.Host; got != cacheAddress {
		t.Errorf("the cache listens on %q", got)
	}
	if !strings.Contains(text, "forward . 10.61.0.10\n") || pod.Spec.Containers[0].Image != "coredns:1" || pod.Spec.NodeName != worker {
		t.Errorf("the cache is\n%s", text)
	}
}

func TestTheNetworkOfANode(t *testing.T) {
	peers := []peer{{"a", "10.60.0.0/24", "172.18.0.2"}, {"b", "10.60.1.0/24", "172.18.0.3"}, {"c", "10.60.2.0/24", "172.18.0.4"}}
	var script bytes.Buffer
	if err := networkScript.Execute(&script, network{peers[1], peers, podNetwork}); err != nil {
		t.Fatal(err)
	}
	check := exec.Command("sh", "-n")
	check.Stdin = strings.NewReader(script.String())
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script.String())
	}
	_, conflist, _ := strings.Cut(script.String(), "<<CNI\n")
	conflist, _, _ = strings.Cut(conflist, "CNI\n")
	var cni struct {
		Plugins []struct {
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal([]byte(conflist), &cni); err != nil {
		t.Fatal(err)
	}
	if got := cni.Plugins[0].IPAM.Ranges[0][0].Subnet; got != "10.60.1.0/24" {
		t.Errorf("the pods of node b have addresses of %s", got)
	}
	for line, want := range map[string]bool{
		"ip route replace 10.60.0.0/24 via 172.18.0.2\n": true,
		"ip route replace 10.60.2.0/24 via 172.18.0.4\n": true,
		"ip route replace 10.60.1.0/24":                  false, // its own
		"for net in 10.60.0.0/16 $(ip -4 route":          true,
	} {
		if strings.Contains(script.String(), line) != want {
			t.Errorf("%q is in the script: %t, want %t\n%s", line, !want, want, script.String())
		}
	}
}
