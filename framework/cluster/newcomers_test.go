package cluster

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// Those that come while others get their routes get theirs together, and each gets its own error.
func TestNodesThatJoinAtOnceGetTheirRoutesTogether(t *testing.T) {
	var n newcomers
	var mu sync.Mutex
	var batches [][]string
	add := func(nodes []string) map[string]error {
		time.Sleep(500 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(nodes)
		batches = append(batches, nodes)
		return map[string]error{"worker-3": errors.New("it does not run any more")}
	}
	errs := make([]error, 5)
	var joined sync.WaitGroup
	for i := range errs {
		joined.Go(func() {
			time.Sleep(time.Duration(i) * 20 * time.Millisecond)
			errs[i] = n.join(fmt.Sprintf("worker-%d", i), add)
		})
	}
	joined.Wait()
	if want := [][]string{{"worker-0"}, {"worker-1", "worker-2", "worker-3", "worker-4"}}; !slices.EqualFunc(batches, want, slices.Equal) {
		t.Errorf("routes of %v, want %v", batches, want)
	}
	for i, err := range errs {
		if (err != nil) != (i == 3) {
			t.Errorf("worker-%d: %v", i, err)
		}
	}
	if err := n.join("worker-3", func([]string) map[string]error { return nil }); err != nil {
		t.Errorf("when it joins again: %v", err)
	}
}
