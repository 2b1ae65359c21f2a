package coredns

import (
	"slices"
	"testing"
)

// The ranges are the ones of an operator who wrote about it, and the add-on's own.
func TestReplicasForTheSizeOfACluster(t *testing.T) {
	for _, c := range []struct {
		of                   AutoScaling
		nodes, cores, wanted int
	}{
		{AutoScaling{3, 10}, 0, 0, 3},
		{AutoScaling{3, 10}, 48, 768, 3},
		{AutoScaling{3, 10}, 49, 768, 4},
		{AutoScaling{3, 10}, 48, 769, 4},
		{AutoScaling{3, 10}, 160, 100, 10},
		{AutoScaling{3, 10}, 161, 9000, 10},
		{AutoScaling{2, 10}, 32, 512, 2},
		{AutoScaling{2, 10}, 33, 64, 3},
		{AutoScaling{2, 10}, 8, 513, 3},
	} {
		if got := c.of.Replicas(c.nodes, c.cores); got != c.wanted {
			t.Errorf("%d to %d, %d nodes, %d cores: %d, want %d", c.of.Min, c.of.Max, c.nodes, c.cores, got, c.wanted)
		}
	}
}

func TestStepsOfAutoScaling(t *testing.T) {
	for _, c := range []struct {
		from, to int
		steps    []int
	}{
		{3, 10, []int{10}},
		{10, 3, []int{7, 5, 4, 3}},
		{3, 2, []int{2}},
		{4, 4, nil},
	} {
		var got []int
		for now := c.from; now != c.to && len(got) < 10; {
			now = AutoScaling{}.Next(now, c.to)
			got = append(got, now)
		}
		if !slices.Equal(got, c.steps) {
			t.Errorf("from %d to %d: %v, want %v", c.from, c.to, got, c.steps)
		}
	}
}
