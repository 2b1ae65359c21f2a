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
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/proxy"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Steps performs the scenario's steps, once DNS answers, and returns when all are done.
func (r *Runner) Steps(ctx context.Context) error {
	if r.Scenario.Probe != nil {
		if err := r.baseline(ctx); err != nil {
			return fmt.Errorf("before the first step: %w", err)
		}
	}
	r.announce(history.Steps.Begins())
	r.scaling.start(ctx)
	return r.stepAll(ctx)
}

// Settle begins the time after the steps, and returns when the scenario's own part of it is over.
func (r *Runner) Settle(ctx context.Context) error {
	r.announce(history.Settle.Begins())
	return r.Sleep(ctx, r.now()+r.Scenario.Settle.D())
}

// stepAll returns when all steps are done, also those that it does not wait for.
func (r *Runner) stepAll(ctx context.Context) error {
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

func (r *Runner) step(ctx context.Context, step scenarios.Step) error {
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
		if err := r.untilDue(ctx, do); err != nil {
			return err
		}
		switch do.Target {
		case scenarios.OnHandler:
			return r.handlers.do(ctx, do)
		case scenarios.OnNode, scenarios.OnKubelet, scenarios.OnInstance:
			return r.operator.do(ctx, do)
		case scenarios.OnCoreDNS:
			return r.coreDNS.do(ctx, do)
		case scenarios.OnWorkload:
			if do.Verb == scenarios.Delete {
				return r.operator.do(ctx, do)
			}
			return r.workload.deploy(ctx, do)
		case scenarios.OnBudget:
			return r.workload.changeBudget(ctx, do)
		case scenarios.OnAddOn:
			return r.workload.addOns.do(ctx, do)
		case scenarios.OnCluster:
			return r.operator.grow(ctx, do)
		}
	}
	return errors.New("no action set")
}

// untilDue waits until it is time for what is done to a target.
func (r *Runner) untilDue(ctx context.Context, d scenarios.Do) error {
	since := r.now()
	if d.At != "" {
		since = r.sent[d.At].put
	}
	if d.At == "" && d.After == 0 {
		return nil
	}
	return r.Sleep(ctx, since+d.After.D())
}

// beginFault begins a fault at its target. All of them record when it began, what it hit and when it
// ended.
func (r *Runner) beginFault(ctx context.Context, f fault.Fault) error {
	var err error
	switch {
	case f.On == history.OnMetadata:
		err = r.metadata.beginFault(ctx, f, r.handlers.pods)
	case f.Type.OfInstances():
		err = r.launches.Fail(f)
	case f.Type.OfTheQueueItself():
		err = r.queueFaults.begin(ctx, f)
	default:
		err = r.proxy.post(ctx, "faults", f.WithAtNode(r.nodes[f.AtNode()].Name))
	}
	return wrap.Errorf(err, "begin fault %s", f.Name)
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

func (r *Runner) putNotice(ctx context.Context, n scenarios.Notice) error {
	switch {
	case !r.handler().ReadsQueue():
		return r.metadata.put(ctx, n)
	case n.Type == history.StatusChecked:
		return r.putFindings(ctx, n)
	}
	notice := cloud.Notice{
		Type: n.Type, Action: n.Action, State: n.State, Age: n.Age.D(), Zone: n.Zone, Health: healthOf(n, r.Clock().Start()),
	}
	if n.Fleet > 0 {
		return r.putToFleet(ctx, n, notice)
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
	return r.send(ctx, n, notice, nodes)
}

// putToFleet sends a notice for each of the fleet's first nodes: as many at once as EventBridge takes, or one after the other.
func (r *Runner) putToFleet(ctx context.Context, n scenarios.Notice, notice cloud.Notice) error {
	begun, size := r.now(), cloud.MaxEntries
	if n.Every > 0 {
		size = 1
	}
	for first := 0; first < n.Fleet; first += size {
		if err := r.Sleep(ctx, begun+time.Duration(first)*n.Every.D()); err != nil {
			return err
		}
		if err := r.send(ctx, n, notice, r.fleet[first:min(first+size, n.Fleet)]); err != nil {
			return err
		}
	}
	return nil
}

// send sends a notice for the instances of nodes, and records it. Its step may have sent others before.
func (r *Runner) send(ctx context.Context, n scenarios.Notice, notice cloud.Notice, nodes []cluster.Node) error {
	for _, node := range nodes {
		notice.Instances = append(notice.Instances, node.Instance)
	}
	at := r.now()
	ids, err := r.aws.Put(ctx, notice)
	if err == nil {
		err = r.metadata.announceToOthers(ctx, n)
	}
	if err != nil {
		return err
	}
	until := at + r.Scenario.Deadline.For(r.Set)
	for _, id := range ids {
		r.recordOwn(history.Notice(id))
	}
	if r.sent[n.Name] == nil {
		r.sent[n.Name] = &sent{put: at, deadline: until}
	}
	r.sent[n.Name].notices = append(r.sent[n.Name].notices, ids...)
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
func (r *Runner) putFindings(ctx context.Context, n scenarios.Notice) error {
	at := r.now()
	since := r.Clock().Start().Add(at - impairedFor)
	var findings []proxy.Finding
	for _, name := range n.Nodes {
		findings = append(findings, proxy.Finding{Instance: r.nodes[name].Instance, Of: n.Check, Since: since})
	}
	if err := r.proxy.post(ctx, "findings", findings); err != nil {
		return fmt.Errorf("notice %s: %w", n.Name, err)
	}
	for _, name := range n.Nodes {
		r.recordUnsent(n, r.nodes[name], at)
	}
	return nil
}

// formerInstance is an instance that had the node's name and was terminated: names are
// used again when an address is.
func (r *Runner) formerInstance(ctx context.Context, node cluster.Node) (cluster.Node, error) {
	started, err := r.aws.RunInstances(ctx, r.cluster.Name, []string{node.Name})
	if err != nil {
		return cluster.Node{}, err
	}
	id := started[node.Name]
	return cluster.Node{Instance: id}, r.aws.Terminate(ctx, []string{id})
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

func (r *Runner) putMessage(ctx context.Context, m scenarios.Message) error {
	instances := make(map[string]string, len(r.nodes))
	for name, node := range r.nodes {
		instances[name] = node.Instance
	}
	put := &sent{}
	r.sent[m.Name] = put
	begun := r.now()
	for n := range m.Count() {
		if err := r.Sleep(ctx, begun+time.Duration(n)*m.Every.D()); err != nil {
			return err
		}
		body, err := m.Text(instances, n+1)
		if err != nil {
			return fmt.Errorf("message %s: %w", m.Name, err)
		}
		at := r.now()
		id, err := r.aws.SendRaw(ctx, body)
		if err != nil {
			return fmt.Errorf("message %s: %w", m.Name, err)
		}
		r.recordOwn(history.Message(id))
		put.messages = append(put.messages, id)
		r.Record(history.NewMessagePut(m.Name, id, history.At(at)))
		put.put, put.deadline = at, at+r.Scenario.Deadline.For(r.Set)
		for _, name := range r.Scenario.NoticeIn(m) {
			node := r.nodes[name]
			r.announce(history.NewNoticePut(m.Name, history.InMessage, node.Name, history.At(at), history.Until(put.deadline), history.Message(id), history.Instance(node.Instance)))
		}
	}
	return nil
}

// reclaim waits for the notice's deadline, or for a time of its own, and removes the node.
func (r *Runner) reclaim(ctx context.Context, step scenarios.Reclaim) error {
	if notice, ok := r.sent[step.At]; ok {
		if err := r.untilTaken(ctx, r.nodes[step.Node], notice.deadline); err != nil {
			return err
		}
	}
	if err := r.sleep(ctx, step.After.D()); err != nil {
		return err
	}
	node := r.nodes[step.Node]
	if err := r.metadata.record(ctx, node); err != nil {
		return fmt.Errorf("before %s is taken: %w", node.Name, err)
	}
	if step.Shutdown {
		r.announce(history.NewNodeShutdown(node.Name, history.Instance(node.Instance)))
		if err := r.cluster.Shutdown(ctx, node.Name, r.Scenario.ShutDown()[step.Node].GracePeriod.D()); err != nil {
			return err
		}
		r.Record(history.NewReclaimed(node.Name, history.Instance(node.Instance)))
		return nil
	}
	at := r.now()
	if err := r.launches.Reclaim(ctx, node); err != nil {
		return err
	}
	done := r.now()
	r.Record(history.NewReclaimed(node.Name, history.At(at), history.Instance(node.Instance), history.With(history.Numbers{history.Took: (done - at).Seconds()})))
	return nil
}

// takenPoll is the pause between two looks at whether an instance is terminated.
const takenPoll = time.Second

// untilTaken waits for a deadline, or until the handler has removed the node and terminated its
// instance: EC2 takes it then.
func (r *Runner) untilTaken(ctx context.Context, node cluster.Node, deadline time.Duration) error {
	for r.now() < deadline {
		terminated, err := r.terminated(ctx, node)
		if err != nil || terminated {
			return err
		}
		if err := r.Sleep(ctx, min(deadline, r.now()+takenPoll)); err != nil {
			return err
		}
	}
	return nil
}

// terminated reports whether the instance of a node is terminated. EC2 is asked only if the node
// is gone.
func (r *Runner) terminated(ctx context.Context, node cluster.Node) (bool, error) {
	if !removed(r.Events(), node) {
		return false, nil
	}
	terminated, err := r.aws.Terminated(ctx, node.Instance)
	return terminated, wrap.Errorf(err, "reclaim %s", node.Name)
}

// removed reports whether the Node object of an instance, or the instance itself, is on record as
// gone.
func removed(events []history.Event, node cluster.Node) bool {
	return slices.ContainsFunc(events, func(e history.Event) bool {
		return e.Kind == history.NodeDeleted && e.Node == node.Name || e.Kind == history.InstanceEnded && e.Instance == node.Instance
	})
}

const poll = 100 * time.Millisecond

// baselineQuiet is how long the service should have answered every query before
// the first step: an outage found later is then not an earlier one.
const (
	baselineQuiet   = 2 * time.Second
	baselineTimeout = 30 * time.Second
)

// baseline waits until DNS answers. If it does not, the drill continues and its verdict
// will be Unknown: on a machine too busy to answer, the drill must be repeated.
func (r *Runner) baseline(ctx context.Context) error {
	deadline := r.now() + baselineTimeout
	for r.AnsweredFor() < baselineQuiet {
		if r.now() > deadline {
			r.Record(history.NewAwaitLate("baseline", history.Note(fmt.Sprintf("DNS did not answer every query for %s in a row within %s", baselineQuiet, baselineTimeout))))
			return nil
		}
		if err := r.Sleep(ctx, r.now()+poll); err != nil {
			return err
		}
	}
	return nil
}
