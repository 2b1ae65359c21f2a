package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/scenarios"
)

// pickNodes finds a node for each name of the scenarios: first those that something
// is done to, each a node of its own, then those that are only looked at.
func (s *System) pickNodes(ctx context.Context, all []*drilling) error {
	pods, err := s.Cluster.DNSPods(ctx)
	if err != nil {
		return err
	}
	runsDNS := func(n cluster.Node) bool {
		return slices.ContainsFunc(pods, func(p cluster.DNSPod) bool { return p.Node == n.Name })
	}
	free := slices.Clone(s.Cluster.Nodes)
	for _, targets := range []bool{true, false} {
		for _, r := range all {
			wanted := maps.Clone(r.Scenario.Nodes)
			maps.DeleteFunc(wanted, func(name string, _ scenarios.Pick) bool {
				return slices.Contains(r.Scenario.Targets(), name) != targets
			})
			picked, err := pick(wanted, free, runsDNS)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Scenario.Name, err)
			}
			maps.Copy(r.nodes, picked)
			if targets {
				free = slices.DeleteFunc(free, func(n cluster.Node) bool { return slices.Contains(r.targets(), n.Name) })
			}
		}
	}
	return nil
}

// pick chooses a node for each name: first for those that must run CoreDNS, so
// that no other name takes theirs. The same wishes on the same nodes always
// get the same answer.
func pick(wanted map[string]scenarios.Pick, nodes []cluster.Node, runsDNS func(cluster.Node) bool) (map[string]cluster.Node, error) {
	names := slices.Sorted(maps.Keys(wanted))
	picked, taken := map[string]cluster.Node{}, map[string]bool{}
	for _, wantDNS := range []bool{true, false} {
		for _, name := range names {
			pick := wanted[name]
			if (pick.Runs == "coredns") != wantDNS {
				continue
			}
			candidates := slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool {
				return n.Capacity != pick.Capacity || taken[n.Name] || (wantDNS && !runsDNS(n))
			})
			if len(candidates) == 0 {
				return nil, fmt.Errorf("no node left for %q: capacity %s, runs %q", name, pick.Capacity, pick.Runs)
			}
			slices.SortStableFunc(candidates, func(a, b cluster.Node) int {
				return boolOrder(runsDNS(a)) - boolOrder(runsDNS(b))
			})
			picked[name], taken[candidates[0].Name] = candidates[0], true
		}
	}
	return picked, nil
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (r *drilling) step(ctx context.Context, step scenarios.Step) error {
	switch {
	case step.Notice != nil:
		return r.putNotice(ctx, *step.Notice)
	case step.Message != nil:
		return r.putMessage(ctx, *step.Message)
	case step.Await != nil:
		return r.await(ctx, *step.Await)
	case step.Reclaim != nil:
		return r.reclaim(ctx, *step.Reclaim)
	case step.Fault != nil:
		return r.beginFault(ctx, *step.Fault)
	case step.Budget != nil:
		return r.changeBudget(ctx, *step.Budget)
	case step.Disturb != nil:
		return r.disturb(ctx, *step.Disturb)
	case step.Disrupt != nil:
		return r.disrupt(ctx, *step.Disrupt)
	}
	return fmt.Errorf("it says nothing to do")
}

func (r *drilling) putNotice(ctx context.Context, n scenarios.Notice) error {
	notice := cloud.Notice{Type: history.NoticeType(n.Type), Detail: map[string]any{}}
	if n.Action != "" {
		notice.Detail["instance-action"] = n.Action
	}
	if n.State != "" {
		notice.Detail["state"] = n.State
	}
	nodes := make([]cluster.Node, 0, len(n.Nodes)+1)
	for _, name := range n.Nodes {
		nodes = append(nodes, r.nodes[name])
	}
	if n.Instance != "" {
		nodes = append(nodes, cluster.Node{Instance: n.Instance})
	}
	if n.InstanceLike != "" {
		nodes = append(nodes, cluster.Node{Instance: almost(r.nodes[n.InstanceLike].Instance)})
	}
	for _, node := range nodes {
		notice.Instances = append(notice.Instances, node.Instance)
	}
	at := r.rec.Clock().Now()
	ids, err := r.AWS.Put(ctx, notice)
	if err != nil {
		return err
	}
	until := at + r.Scenario.Deadline.For(r.Set)
	for _, id := range ids {
		r.mine(history.Event{Notice: id})
	}
	r.notices[n.Name] = &sent{notices: ids, put: at, deadline: until}
	for i, node := range nodes {
		// A scheduled change is one event for all of its instances.
		id := ids[min(i, len(ids)-1)]
		r.tell(history.Event{Kind: history.NoticePut, At: at, Until: &until, Key: n.Name, Notice: id, Node: node.Name, Instance: node.Instance, Reason: string(n.Type)})
	}
	return nil
}

// almost is an instance id that differs from this one in its last digit, which is
// hexadecimal.
func almost(id string) string {
	last := len(id) - 1
	if id[last] == '0' {
		return id[:last] + "1"
	}
	return id[:last] + "0"
}

func (r *drilling) putMessage(ctx context.Context, m scenarios.Message) error {
	instances := make(map[string]string, len(r.nodes))
	for name, node := range r.nodes {
		instances[name] = node.Instance
	}
	body, err := m.Text(instances)
	if err != nil {
		return fmt.Errorf("message %s: %w", m.Name, err)
	}
	put := &sent{}
	r.notices[m.Name] = put
	for range max(1, m.Times) {
		at := r.rec.Clock().Now()
		id, err := r.AWS.SendRaw(ctx, body)
		if err != nil {
			return fmt.Errorf("message %s: %w", m.Name, err)
		}
		r.mine(history.Event{Message: id})
		put.messages = append(put.messages, id)
		r.rec.Record(history.Event{Kind: history.MessagePut, At: at, Key: m.Name, Message: id})
	}
	return nil
}

// reclaim waits for the notice's deadline, if there is one, and takes the node.
func (r *drilling) reclaim(ctx context.Context, step scenarios.Reclaim) error {
	if notice, ok := r.notices[step.At]; ok {
		if err := r.sleepUntil(ctx, notice.deadline); err != nil {
			return err
		}
	}
	node := r.nodes[step.Node]
	at := r.rec.Clock().Now()
	if err := r.Cluster.Reclaim(ctx, node.Name); err != nil {
		return err
	}
	done := r.rec.Clock().Now()
	r.rec.Record(history.Event{Kind: history.Reclaimed, At: at, Node: node.Name, Instance: node.Instance, Numbers: history.Numbers{history.Took: (done - at).Seconds()}})
	return nil
}

// sleepUntil waits for an offset of the run, unless a record breaks off first.
func (r *drilling) sleepUntil(ctx context.Context, until time.Duration) error {
	timer := time.NewTimer(until - r.rec.Clock().Now())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	case err := <-r.broken:
		return err
	case <-timer.C:
		return nil
	}
}

// baselineQuiet is how long the service should have answered every query before
// the first step: an outage found later is then not one of before.
const (
	baselineQuiet   = 3 * time.Second
	baselineTimeout = 30 * time.Second
)

// baseline waits until DNS answers. Where it does not, the drill goes on and its
// verdict will be Unknown: a machine too busy to answer calls for a repeat.
func (r *drilling) baseline(ctx context.Context) error {
	limit := r.rec.Clock().Now() + baselineTimeout
	for r.rec.AnsweredFor() < baselineQuiet {
		if r.rec.Clock().Now() > limit {
			r.rec.Record(history.Event{Kind: history.AwaitLate, Key: "baseline", Note: fmt.Sprintf("DNS did not answer every query for %s on end within %s", baselineQuiet, baselineTimeout)})
			return nil
		}
		if err := r.sleepUntil(ctx, r.rec.Clock().Now()+poll); err != nil {
			return err
		}
	}
	return nil
}

// control is the IP of a CoreDNS pod that stays: one of the cluster's, or where the
// scenario does something to all of them, one of our own.
func (r *drilling) control(ctx context.Context) (string, error) {
	if r.Scenario.KeepsDNSPod() {
		pod, err := r.controlPod(ctx)
		return pod.IP, err
	}
	if err := r.create(ctx, "control.yaml", map[string]string{"NAMESPACE": Namespace, "COREDNS_IMAGE": r.Environment["coredns"]}); err != nil {
		return "", err
	}
	if err := r.podReady(ctx, "control"); err != nil {
		return "", err
	}
	pod, err := r.Cluster.Clientset.CoreV1().Pods(Namespace).Get(ctx, "control", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("find out where the control is: %w", err)
	}
	return pod.Status.PodIP, nil
}

// controlPod is a CoreDNS pod on a node that the scenario does nothing to. It is
// waited for: a pod on a node that has just come back may be told not Ready once
// more.
func (r *drilling) controlPod(ctx context.Context) (control cluster.DNSPod, err error) {
	err = cluster.Until(ctx, startTimeout, "a CoreDNS pod that stays, to be the control", func(ctx context.Context) string {
		pods, err := r.Cluster.DNSPods(ctx)
		if err != nil {
			return err.Error()
		}
		var where []string
		for _, p := range pods {
			if !slices.Contains(r.targets(), p.Node) {
				control = p
				return ""
			}
			where = append(where, p.Node)
		}
		return fmt.Sprintf("the Ready ones are on nodes that are drained (%s)", strings.Join(where, ", "))
	})
	return control, err
}

// targets are the nodes that the scenario does something to.
func (r *drilling) targets() []string {
	var out []string
	for _, name := range r.Scenario.Targets() {
		out = append(out, r.nodes[name].Name)
	}
	return out
}
