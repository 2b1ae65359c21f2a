package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/proxy"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Steps performs the scenario's steps, once DNS answers, and returns when all are done.
func (r *runner) Steps(ctx context.Context) error {
	if r.Scenario.Probe != nil {
		if err := r.baseline(ctx); err != nil {
			return fmt.Errorf("before the first step: %w", err)
		}
	}
	r.announce(history.Steps.Begins())
	r.startScaling(ctx)
	return r.stepAll(ctx)
}

// Settle begins the time after the steps, and returns when the scenario's own part of it is over.
func (r *runner) Settle(ctx context.Context) error {
	r.announce(history.Settle.Begins())
	return r.Sleep(ctx, r.rec.Clock().Now()+r.Scenario.Settle.D())
}

// stepAll returns when all steps are done, and what goes on next to them.
func (r *runner) stepAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, step := range r.Scenario.Steps {
		if err := r.step(ctx, step); err != nil {
			cancel()
			return errors.Join(fmt.Errorf("step %d: %w", i+1, err), r.meanwhile.Wait())
		}
	}
	return r.meanwhile.Wait()
}

func (r *runner) step(ctx context.Context, step scenarios.Step) error {
	switch do := step.Kind().(type) {
	case scenarios.Notice:
		return r.putNotice(ctx, do)
	case scenarios.Message:
		return r.putMessage(ctx, do)
	case scenarios.Await:
		return r.await(ctx, do)
	case scenarios.Reclaim:
		return r.reclaim(ctx, do)
	case scenarios.Fault:
		return r.beginFault(ctx, do.Fault)
	case scenarios.Do:
		return r.do(ctx, do)
	}
	return errors.New("no action set")
}

// healthOf has the fields of a notice as a health event of a run that began then. A notice that
// updates another has the eventArn of that one.
func healthOf(n scenarios.Notice, began time.Time) cloud.Health {
	h := scenarios.Health{}
	if n.Health != nil {
		h = *n.Health
	}
	return cloud.Health{
		Service: h.Service, Status: h.Status, StartsIn: h.StartsIn.D(), Foreign: h.Foreign, NoEntities: h.NoEntities,
		Event: fmt.Sprintf("%s-%d", cmp.Or(h.Updates, n.Name), began.Unix()),
	}
}

func (r *runner) putNotice(ctx context.Context, n scenarios.Notice) error {
	switch {
	case r.handler().ReadsMetadata():
		return r.putMetadata(ctx, n)
	case n.Type == history.StatusChecked:
		return r.putFindings(ctx, n)
	}
	notice := cloud.Notice{
		Type: n.Type, Action: n.Action, State: n.State, Age: n.Age.D(), Zone: n.Zone, Health: healthOf(n, r.rec.Clock().Start()),
	}
	nodes := make([]cluster.Node, 0, len(n.Nodes)+1)
	for _, name := range n.Nodes {
		if prepared := r.Scenario.Nodes[name].Prepared; prepared != nil {
			notice.Reservation = prepared.CapacityReservation
		}
		nodes = append(nodes, r.nodes[name])
	}
	if n.Instance != "" {
		nodes = append(nodes, cluster.Node{Instance: n.Instance})
	}
	if n.InstanceLike != "" {
		nodes = append(nodes, cluster.Node{Instance: similarID(r.nodes[n.InstanceLike].Instance)})
	}
	if n.FormerOf != "" {
		former, err := r.formerInstance(ctx, r.nodes[n.FormerOf])
		if err != nil {
			return fmt.Errorf("notice %s: %w", n.Name, err)
		}
		nodes = append(nodes, former)
	}
	if n.LaunchedSince != "" {
		launched := r.launchedSince(n.LaunchedSince)
		if len(launched) == 0 {
			return fmt.Errorf("notice %s: nothing was launched since %s", n.Name, n.LaunchedSince)
		}
		nodes = append(nodes, launched...)
	}
	for _, node := range nodes {
		notice.Instances = append(notice.Instances, node.Instance)
	}
	at := r.rec.Clock().Now()
	ids, err := r.sys.AWS.Put(ctx, notice)
	if err == nil {
		err = r.announceToOthers(ctx, n)
	}
	if err != nil {
		return err
	}
	until := at + r.Scenario.Deadline.For(r.Set)
	for _, id := range ids {
		r.recordOwn(history.Notice(id))
	}
	r.notices[n.Name] = &sent{notices: ids, put: at, deadline: until}
	if len(nodes) == 0 { // it names nothing
		nodes = append(nodes, cluster.Node{})
	}
	for i, node := range nodes {
		// A scheduled change is one event for all of its instances.
		id := ids[min(i, len(ids)-1)]
		r.announce(history.NewNoticePut(n.Name, n.Type, node.Name, history.At(at), history.Until(until), history.Notice(id), history.Instance(node.Instance)))
	}
	return nil
}

// impairedFor is how long a check has failed when it is first reported. Handlers may wait for as much,
// since a check can fail while an instance restarts: Karpenter for two minutes.
const impairedFor = 3 * time.Minute

// putFindings makes EC2 find the notice's check failed, or its event scheduled, for the instances of
// its nodes.
func (r *runner) putFindings(ctx context.Context, n scenarios.Notice) error {
	at := r.rec.Clock().Now()
	since := r.rec.Clock().Start().Add(at - impairedFor)
	var findings []proxy.Finding
	for _, name := range n.Nodes {
		findings = append(findings, proxy.Finding{Instance: r.nodes[name].Instance, Of: n.Check, Since: since})
	}
	if err := r.postToProxy(ctx, "findings", findings); err != nil {
		return fmt.Errorf("notice %s: %w", n.Name, err)
	}
	for _, name := range n.Nodes {
		r.recordUnsent(n, r.nodes[name], at)
	}
	return nil
}

// formerInstance is an instance that had the node's name and was terminated: names are
// used again when an address is.
func (r *runner) formerInstance(ctx context.Context, node cluster.Node) (cluster.Node, error) {
	started, err := r.sys.AWS.RunInstances(ctx, r.sys.InCluster(r.under()).Settings.ClusterName, []string{node.Name})
	if err != nil {
		return cluster.Node{}, err
	}
	id := started[node.Name]
	return cluster.Node{Instance: id}, r.sys.AWS.Terminate(ctx, []string{id})
}

// similarID is an instance id that differs from this one in its last digit, which is
// hexadecimal.
func similarID(id string) string {
	last := len(id) - 1
	if id[last] == '0' {
		return id[:last] + "1"
	}
	return id[:last] + "0"
}

func (r *runner) putMessage(ctx context.Context, m scenarios.Message) error {
	instances := make(map[string]string, len(r.nodes))
	for name, node := range r.nodes {
		instances[name] = node.Instance
	}
	put := &sent{}
	r.notices[m.Name] = put
	begun := r.rec.Clock().Now()
	for n := range m.Count() {
		if err := r.sleepUntil(ctx, begun+time.Duration(n)*m.Every.D()); err != nil {
			return err
		}
		body, err := m.Text(instances, n+1)
		if err != nil {
			return fmt.Errorf("message %s: %w", m.Name, err)
		}
		at := r.rec.Clock().Now()
		id, err := r.sys.AWS.SendRaw(ctx, body)
		if err != nil {
			return fmt.Errorf("message %s: %w", m.Name, err)
		}
		r.recordOwn(history.Message(id))
		put.messages = append(put.messages, id)
		r.rec.Record(history.NewMessagePut(m.Name, id, history.At(at)))
	}
	return nil
}

// reclaim waits for the notice's deadline, or for a time of its own, and removes the node .
func (r *runner) reclaim(ctx context.Context, step scenarios.Reclaim) error {
	if notice, ok := r.notices[step.At]; ok {
		if err := r.untilTaken(ctx, r.nodes[step.Node], notice.deadline); err != nil {
			return err
		}
	}
	if err := r.sleep(ctx, step.After.D()); err != nil {
		return err
	}
	node := r.nodes[step.Node]
	if err := r.recordMetadata(ctx, node); err != nil {
		return fmt.Errorf("before %s is taken: %w", node.Name, err)
	}
	if step.Shutdown {
		r.announce(history.NewNodeShutdown(node.Name, history.Instance(node.Instance)))
		if err := r.sys.Cluster.Shutdown(ctx, node.Name); err != nil {
			return err
		}
		r.rec.Record(history.NewReclaimed(node.Name, history.Instance(node.Instance)))
		return nil
	}
	at := r.rec.Clock().Now()
	if err := r.sys.Reclaim(ctx, node); err != nil {
		return err
	}
	done := r.rec.Clock().Now()
	r.rec.Record(history.NewReclaimed(node.Name, history.At(at), history.Instance(node.Instance), history.With(history.Numbers{history.Took: (done - at).Seconds()})))
	return nil
}

// takenPoll is the pause between two looks at whether an instance is terminated.
const takenPoll = time.Second

// untilTaken waits for a deadline, or until the handler has removed the node and terminated its
// instance: EC2 takes it then.
func (r *runner) untilTaken(ctx context.Context, node cluster.Node, deadline time.Duration) error {
	for r.rec.Clock().Now() < deadline {
		terminated, err := r.terminated(ctx, node)
		if err != nil || terminated {
			return err
		}
		if err := r.sleepUntil(ctx, min(deadline, r.rec.Clock().Now()+takenPoll)); err != nil {
			return err
		}
	}
	return nil
}

// terminated reports whether the instance of a node is terminated. EC2 is asked only if the node
// is gone.
func (r *runner) terminated(ctx context.Context, node cluster.Node) (bool, error) {
	if !removed(r.rec.Events(), node) {
		return false, nil
	}
	terminated, err := r.sys.AWS.Terminated(ctx, node.Instance)
	if err != nil {
		return false, fmt.Errorf("reclaim %s: %w", node.Name, err)
	}
	return terminated, nil
}

// removed reports whether the Node object of an instance, or the instance itself, is on record as
// gone.
func removed(events []history.Event, node cluster.Node) bool {
	return slices.ContainsFunc(events, func(e history.Event) bool {
		return e.Kind == history.NodeDeleted && e.Node == node.Name || e.Kind == history.InstanceEnded && e.Instance == node.Instance
	})
}

// sleep is sleepUntil for a time from now; 0 does not wait.
func (r *runner) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return r.sleepUntil(ctx, r.rec.Clock().Now()+d)
}

// Sleep continues the recording until an offset of it.
func (r *runner) Sleep(ctx context.Context, until time.Duration) error {
	return r.sleepUntil(ctx, until)
}

// sleepUntil waits for an offset of the run, unless a stream of records ends first.
func (r *runner) sleepUntil(ctx context.Context, until time.Duration) error {
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
// the first step: an outage found later is then not an earlier one.
const (
	baselineQuiet   = 2 * time.Second
	baselineTimeout = 30 * time.Second
)

// baseline waits until DNS answers. If it does not, the drill goes on and its verdict
// will be Unknown: on a machine too busy to answer, the drill must be repeated.
func (r *runner) baseline(ctx context.Context) error {
	limit := r.rec.Clock().Now() + baselineTimeout
	for r.rec.AnsweredFor() < baselineQuiet {
		if r.rec.Clock().Now() > limit {
			r.rec.Record(history.NewAwaitLate("baseline", history.Note(fmt.Sprintf("DNS did not answer every query for %s in a row within %s", baselineQuiet, baselineTimeout))))
			return nil
		}
		if err := r.sleepUntil(ctx, r.rec.Clock().Now()+poll); err != nil {
			return err
		}
	}
	return nil
}
