package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
				ID: "i-1", Zone: "ap-northeast-2c", Type: "m5.large", Capacity: Spot, CPU: 1930, Memory: 7 << 30, MemoryTotal: 8 << 30, Pods: 29,
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
