package cluster

import "testing"

func TestWeightsInWords(t *testing.T) {
	const (
		worker  = ". 16384\nsystem.slice 1024\nkubelet.slice 16384\nkubelet.slice/kubelet.service 102\nkubelet.slice/kubelet-kubepods.slice 2048"
		control = ". 4096\nkubelet.slice 16384"
	)
	for _, c := range []struct {
		name string
		read []nodeWeights
		want string
	}{
		{
			"nodes with the same weights are named together",
			[]nodeWeights{{"control-plane", control}, {"worker", worker}, {"worker2", worker}},
			"control-plane: container 4096, kubelet.slice 16384; worker, worker2: container 16384, system.slice 1024, kubelet.slice 16384, kubelet.service 102, kubelet-kubepods.slice 2048",
		},
		{
			"a node without weights is not silently missing",
			[]nodeWeights{{"control-plane", ""}, {"worker", control}},
			"control-plane: no weights, as it has no CPU controller; worker: container 4096, kubelet.slice 16384",
		},
	} {
		if got := weightsInWords(c.read); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
