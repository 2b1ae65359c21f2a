package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/nodes"
)

// five is a new cluster of five nodes; change may edit a node first.
func five(t *testing.T, change func(map[string]*corev1.Node)) *Cluster {
	t.Helper()
	all := map[string]*corev1.Node{}
	for _, name := range append([]string{"c-control-plane"}, WorkerNames("c")...) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{Label: "true", nodes.CapacityLabel: nodes.Spot}}}
		n.Spec.ProviderID = "aws:///zone/i-" + name
		all[name] = n
	}
	all["c-worker"].Labels[nodes.CapacityLabel] = nodes.OnDemand
	all["c-control-plane"].Labels = map[string]string{Label: "true", "node-role.kubernetes.io/control-plane": ""}
	state := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: stateName, Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{"labels": `{"c-worker2":{"spotdrill.dev/owned":"true","karpenter.sh/capacity-type":"spot"}}`},
	}
	change(all)
	client := fake.NewClientset(state)
	for _, n := range all {
		if err := client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	c := &Cluster{Name: "c", Clientset: client}
	if err := c.loadNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAWorkerWithoutItsNodeObjectOrProviderIDIsLost(t *testing.T) {
	now := metav1.NewTime(time.Now())
	c := five(t, func(nodes map[string]*corev1.Node) {
		nodes["c-control-plane"].Spec.ProviderID, nodes["c-worker2"].Spec.ProviderID = "", ""
		delete(nodes, "c-worker3")
		nodes["c-worker4"].DeletionTimestamp, nodes["c-worker4"].Finalizers = &now, []string{"example.org/mine"}
	})
	lost, err := c.Lost(t.Context())
	if err != nil || !slices.Equal(lost, []string{"c-worker2", "c-worker3", "c-worker4"}) {
		t.Errorf("lost %v, %v", lost, err)
	}
	var got []string
	for _, n := range c.Nodes {
		got = append(got, n.Name+" "+n.Capacity+" "+n.Instance)
	}
	want := "c-control-plane control-plane , c-worker on-demand i-c-worker, c-worker2 spot , c-worker3 spot , c-worker4 spot "
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestANodeIsDisownedWhenItsHandlerIsGone(t *testing.T) {
	c := five(t, func(nodes map[string]*corev1.Node) {
		n := nodes["c-worker2"]
		n.Labels["karpenter.sh/registered"] = "true"
		n.Annotations = map[string]string{"karpenter.sh/nodepool-hash": "1", "node.alpha.kubernetes.io/ttl": "0"}
		n.Finalizers = []string{"karpenter.sh/termination"}
		n.OwnerReferences = []metav1.OwnerReference{{Kind: "NodeClaim", Name: "c-worker2"}}
	})
	if err := c.RemoveLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := c.Clientset.CoreV1().Nodes().Get(t.Context(), "c-worker2", metav1.GetOptions{})
	if err != nil || len(n.Finalizers) > 0 || len(n.OwnerReferences) > 0 || len(n.Labels) != 2 || n.Labels[nodes.CapacityLabel] != nodes.Spot || len(n.Annotations) != 1 {
		t.Errorf("%+v, %v", n.ObjectMeta, err)
	}
}

// docker stands in for the real one: it runs one node and records its calls.
const docker = `#!/bin/sh
printf '%s\n' "$*" >>DIR/record
case "$*" in
*State.Running*) test -e DIR/started && echo "n true 172.18.0.5" || echo "n false" ;;
start*) touch DIR/started ;;
"network ls"*) echo drill ;;
"network inspect"*) echo '[{"Name": "drill", "IPAM": {"Config": [{"Subnet": "172.18.0.0/16"}]}}]' ;;
esac
`

func TestANodeThatWasStartedGetsItsNetworkByALaterRestore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(strings.ReplaceAll(docker, "DIR", dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	client := fake.NewClientset(node)
	c := &Cluster{Network: "drill", Nodes: []Node{{Name: "n", Capacity: nodes.Spot}}, Clientset: client, engine: &engine.Engine{Name: "docker"}}
	restore := func(ctx context.Context) error {
		_, err := c.Restore(ctx, nil, func(string) bool { return false })
		return err
	}
	setUps := func() int {
		record, err := os.ReadFile(filepath.Join(dir, "record"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(record), "exec --interactive n sh -ec "+confine([]string{"172.18.0.0/16"})+masquerade+sink+reconnectAll)
	}
	brief, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := restore(brief); err == nil || setUps() > 0 {
		t.Fatalf("no kubelet answers, and Restore with %v; set up %d times", err, setUps())
	}
	proxy := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p", Labels: map[string]string{appLabel: "kube-proxy"}}}
	proxy.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := client.Tracker().Add(proxy); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		if setUps() != 1 {
			t.Fatalf("set up %d times", setUps())
		}
	}
}

// Nodes come back at the same time: one that takes long does not delay the others, and
// one that fails does not stop them.
func TestNodesAreRestoredAtOnce(t *testing.T) {
	slow := make(chan struct{})
	done, err := onEach([]string{"slow", "broken", "quick"}, func(name *string) ([]string, error) {
		switch *name {
		case "slow":
			<-slow
		case "broken":
			return nil, errors.New("broken")
		case "quick":
			close(slow)
		}
		return []string{*name + " is back"}, nil
	})
	if !slices.Equal(done, []string{"slow is back", "quick is back"}) || err == nil || err.Error() != "broken" {
		t.Errorf("%q, %v", done, err)
	}
}

func TestALostNodeIsNotCleaned(t *testing.T) {
	c := five(t, func(nodes map[string]*corev1.Node) {
		nodes["c-worker2"].Spec.Unschedulable, nodes["c-worker3"].Spec.Unschedulable = true, true
	})
	cleaned, err := c.Clean(t.Context(), []string{"c-worker2"}, func(string) bool { return false })
	if err != nil || !slices.Equal(cleaned, []string{"c-worker3 uncordoned"}) {
		t.Errorf("cleaned %q, %v", cleaned, err)
	}
}
