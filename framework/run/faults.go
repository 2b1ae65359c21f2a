package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/launch"
	"github.com/spotdrill/spotdrill/framework/proxy"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// beginFault sets a fault at the recording proxy, which then records when it began,
// what it hit and when it ended.
func (r *runner) beginFault(ctx context.Context, f scenarios.Fault) error {
	if f.Type.OfInstances() {
		return r.sys.FailLaunches(launch.Fault{Name: f.Name, Type: f.Type, Count: f.Count, For: f.For.D()})
	}
	if f.Type.OfTheQueueItself() {
		return r.beginQueueFault(ctx, f)
	}
	return r.setFault(ctx, proxy.Fault{
		Name: f.Name, Type: f.Type, Actions: f.Actions, Count: f.Count, For: f.For.D(),
		By: f.By.D(), Code: f.Code, Status: f.Status, After: f.After.D(), ToAnother: f.ToAnother, Silent: f.Silent, Capacity: f.Capacity,
	})
}

// beginAPIFault is beginFault for a fault of the API server.
func (r *runner) beginAPIFault(ctx context.Context, f scenarios.APIFault) error {
	return r.setFault(ctx, proxy.Fault{
		Name: f.Name, Type: history.FaultType(f.Type), Count: f.Count, For: f.For.D(), By: f.By.D(), Status: f.Status,
		API: &proxy.APICalls{Verbs: f.Verbs, Resources: f.Resources}, RetryAfter: f.RetryAfter.D(), ThenReset: f.ThenReset,
	})
}

func (r *runner) setFault(ctx context.Context, f proxy.Fault) error {
	if err := r.postToProxy(ctx, "faults", f); err != nil {
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
