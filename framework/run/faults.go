package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/system"
)

// beginFault begins a fault at its target. All of them record when it began, what it hit and when it
// ended.
func (r *runner) beginFault(ctx context.Context, f fault.Fault) error {
	var err error
	switch {
	case f.On == history.OnMetadata:
		err = r.beginMetadataFault(ctx, f)
	case f.Type.OfInstances():
		err = r.sys.FailLaunches(f)
	case f.Type.OfTheQueueItself():
		err = r.beginQueueFault(ctx, f)
	default:
		err = r.postToProxy(ctx, "faults", f)
	}
	if err != nil {
		return fmt.Errorf("begin fault %s: %w", f.Name, err)
	}
	return nil
}

// postToProxy sends a value to the recording proxy, as JSON.
func (r *runner) postToProxy(ctx context.Context, path string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	answer, err := r.post(ctx, system.ProxyPod, path, body)
	if err != nil {
		return err
	}
	return answer.Close()
}

// clearFaults ends every fault at the recording proxy, and what EC2 finds there.
func clearFaults(ctx context.Context, c *cluster.Cluster) error {
	for _, what := range []string{"faults", "findings"} {
		if err := podRequest(c, http.MethodDelete, system.ProxyPod, what).Do(ctx).Error(); err != nil {
			return fmt.Errorf("clear the %s of the recording proxy: %w", what, err)
		}
	}
	return nil
}

// recorded reports whether the history has an event of that kind and key.
func (r *runner) recorded(kind history.Kind, key string) bool {
	return slices.ContainsFunc(r.rec.Events(), func(e history.Event) bool { return e.Kind == kind && e.Step() == key })
}
