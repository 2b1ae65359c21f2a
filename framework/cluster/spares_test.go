package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/nodes"
)

func TestSparesAreTheWorkersBeyondTheFixedOnes(t *testing.T) {
	containers := []string{"c-worker11", "c-worker2", "c-control-plane", "c-worker5", "c-worker", "c-worker3", "c-worker4", "c-worker6"}
	got := sparesAmong("c", containers)
	if want := []string{"c-worker5", "c-worker6", "c-worker11"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAnInstanceRegistersWithWhatItsTypeHas(t *testing.T) {
	host := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("24Gi")}
	for name, c := range map[string]struct {
		as   Instance
		want []string
	}{
		"spot, for Karpenter": {
			as: Instance{
				ID: "i-1", Zone: "ap-northeast-2c", Type: "m5.large", Capacity: nodes.Spot, CPU: 1930, Memory: 7 << 30, MemoryTotal: 8 << 30, Pods: 29,
				Taints: []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}},
			},
			want: []string{
				"--provider-id=aws:///ap-northeast-2c/i-1",
				"--node-labels=karpenter.sh/capacity-type=spot,node.kubernetes.io/instance-type=m5.large,spotdrill.dev/owned=true," +
					"spotdrill.dev/spare=true,topology.kubernetes.io/region=ap-northeast-2,topology.kubernetes.io/zone=ap-northeast-2c",
				"--register-with-taints=karpenter.sh/unregistered=:NoExecute",
				"--system-reserved=cpu=70m,memory=1Gi",
				"--max-pods=29",
			},
		},
		"larger than the machine": {
			as: Instance{ID: "i-1", Zone: "ap-northeast-2a", Type: "m5.24xlarge", CPU: 95_000, Memory: 380 << 30, MemoryTotal: 384 << 30, Pods: 737},
			want: []string{
				"--provider-id=aws:///ap-northeast-2a/i-1",
				"--node-labels=node.kubernetes.io/instance-type=m5.24xlarge,spotdrill.dev/owned=true,spotdrill.dev/spare=true," +
					"topology.kubernetes.io/region=ap-northeast-2,topology.kubernetes.io/zone=ap-northeast-2a",
				"--register-with-taints=",
				"--system-reserved=cpu=0,memory=0",
				"--max-pods=737",
			},
		},
	} {
		if got := kubeletFlags(c.as, host); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
}

// A drill takes an instance, and then the controller sees that it is terminated.
func TestAnInstanceThatHasEndedCanBeEnded(t *testing.T) {
	for name, c := range map[string]struct {
		running bool
		fails   bool
	}{
		"it has ended":                  {running: false},
		"it runs, and cannot be killed": {running: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\nkill*) echo can only kill running containers >&2; exit 125 ;;\n*Running*) echo %t ;;\n*) echo 0 ;;\nesac\n", c.running)
			command := filepath.Join(t.TempDir(), "engine")
			if err := os.WriteFile(command, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			cluster := &Cluster{Name: "c", engine: &engine.Engine{Name: command}}
			if err := cluster.Spares().End(t.Context(), "c-worker5"); (err != nil) != c.fails {
				t.Errorf("got %v, fails: %t", err, c.fails)
			}
		})
	}
}
