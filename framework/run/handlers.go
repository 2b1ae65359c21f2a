package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// signalled is how long a deleted pod's processes may take to get SIGTERM: the kubelet sees
// the deletion first. What a step does next, they do after it.
const signalled = 3 * time.Second

// handlers disturbs the handler under test, and records what all handlers of a drill do.
type handlers struct {
	*drill
	installed *system.Handlers
	cluster   *cluster.Cluster
	// requests are what the one under test requested of the API server since the drills began.
	requests func(context.Context) (recording.Requests, error)
	// launched are its objects of the nodes that it had launched at the beginning.
	launched []handler.WorkerObject
	// logs end the handlers' logs, by Installation.FilePrefix.
	logs map[string]recording.Stop
}

// do does something to the handler under test, and returns when it is done.
func (h *handlers) do(ctx context.Context, d scenarios.Do) error {
	doing, as := h.disturb, "disturb"
	if d.Verb == scenarios.Configure {
		doing, as = h.reconfigure, "reconfiguration"
	}
	return wrap.Errorf(doing(ctx, d), "%s %s", as, d.Name)
}

// pods are those of the handler under test.
func (h *handlers) pods(ctx context.Context) ([]corev1.Pod, error) {
	return h.installed.InCluster(h.under()).Pods(ctx)
}

func (h *handlers) disturb(ctx context.Context, d scenarios.Do) error {
	under := h.installed.InCluster(h.under())
	pods, err := under.Pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("handler %s has no pod", under.Name)
	}
	if d.Verb == scenarios.Retire {
		if pods, err = h.draining(ctx, pods); err != nil {
			return err
		}
	}
	for i := range pods {
		h.Record(history.NewHandlerDisturbed(d.Name, disturbance(d), history.Pod(pods[i].Namespace+"/"+pods[i].Name), history.UID(string(pods[i].UID)), history.Node(pods[i].Spec.NodeName)))
	}
	switch d.Verb {
	case scenarios.Kill:
		err = inParallel(ctx, pods, h.cluster.Kill)
	case scenarios.Restart:
		err = under.Update(ctx)
	case scenarios.Scale:
		err = under.Scale(ctx, d.Replicas)
	case scenarios.Delete:
		if err = inParallel(ctx, pods, h.cluster.DeletePod); err == nil {
			err = h.Sleep(ctx, h.now()+signalled)
		}
	case scenarios.Retire:
		err = under.Retire(ctx, pods[0].Name)
	case scenarios.Move:
		err = under.Move(ctx, h.nodes[d.Node].Name)
	case scenarios.CutOff:
		return h.cutOff(ctx, pods, d)
	case scenarios.Stop:
		return h.stop(ctx, d)
	}
	if err == nil {
		h.leftAlone(d, 0)
	}
	return err
}

// draining returns, of the handler's pods, the one that last changed a node or evicted a
// pod, as the API server's audit log has it.
func (h *handlers) draining(ctx context.Context, pods []corev1.Pod) ([]corev1.Pod, error) {
	requests, err := h.requests(ctx)
	if err != nil {
		return nil, err
	}
	for _, change := range slices.Backward(requests.Changes) {
		about := change.Of.Resource == "nodes" || change.Verb == recording.Evict
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == change.By })
		if about && i >= 0 {
			return pods[i : i+1], nil
		}
	}
	return nil, errors.New("the audit log does not show which of the handler's pods drains")
}

func (h *handlers) leftAlone(d scenarios.Do, dropped int) {
	h.Record(history.NewHandlerLeftAlone(d.Name, disturbance(d), history.With(history.Numbers{history.Dropped: float64(dropped)})))
}

// cutOff drops what the pods send to the Kubernetes API for the step's time.
func (h *handlers) cutOff(ctx context.Context, pods []corev1.Pod, d scenarios.Do) error {
	if err := inParallel(ctx, pods, h.cluster.CutOff); err != nil {
		return errors.Join(err, h.reconnect(context.WithoutCancel(ctx), pods, d))
	}
	return h.lasting(ctx, d, func(ctx context.Context) error { return h.reconnect(ctx, pods, d) })
}

// lasting waits until the time of a disturbance is over, and undoes it in any case. With Meanwhile
// it does not wait for that: the steps do at their end.
func (h *handlers) lasting(ctx context.Context, d scenarios.Do, undo func(context.Context) error) error {
	until := h.now() + d.For.D()
	wait := func() error { return errors.Join(h.Sleep(ctx, until), undo(context.WithoutCancel(ctx))) }
	if !d.Meanwhile {
		return wait()
	}
	h.meanwhile.Go(func() error {
		return wrap.Errorf(wait(), "disturb %s", d.Name)
	})
	return nil
}

// stop leaves the handler without a pod for the step's time.
func (h *handlers) stop(ctx context.Context, d scenarios.Do) error {
	resume, err := h.installed.InCluster(h.under()).Pause(ctx)
	if err != nil {
		return err
	}
	return h.lasting(ctx, d, func(ctx context.Context) error {
		err := resume(ctx)
		if err == nil {
			h.leftAlone(d, 0)
		}
		return err
	})
}

// reconnect undoes cutOff, and records how many packets were dropped.
func (h *handlers) reconnect(ctx context.Context, pods []corev1.Pod, d scenarios.Do) error {
	dropped := 0
	for i := range pods {
		n, err := h.cluster.Reconnect(ctx, pods[i])
		if err != nil {
			return err
		}
		dropped += n
	}
	h.leftAlone(d, dropped)
	return nil
}

// reconfigure lets the handler remove nodes without a notice.
func (h *handlers) reconfigure(ctx context.Context, c scenarios.Do) error {
	under, err := h.installed.WithWorkers(ctx, h.under())
	if err != nil {
		return err
	}
	if len(c.Disrupts) == 0 {
		h.Record(history.NewHandlerReconfigured(c.Name, h.Scenario.Feature))
	}
	for _, name := range c.Disrupts {
		h.Record(history.NewHandlerReconfigured(c.Name, h.Scenario.Feature, history.Node(h.nodes[name].Name)))
	}
	return under.Reconfigure(ctx)
}

// disturbance is the history's word of what is done to the handler.
func disturbance(d scenarios.Do) history.Disturbance {
	return map[scenarios.Verb]history.Disturbance{
		scenarios.Kill: history.KillHandler, scenarios.Restart: history.UpdateHandler, scenarios.CutOff: history.CutOffHandler,
		scenarios.Scale: history.ScaleHandler, scenarios.Delete: history.TerminateHandler, scenarios.Retire: history.RetireHandler,
		scenarios.Move: history.MoveHandler, scenarios.Stop: history.StopHandler,
	}[d.Verb]
}

// recordRights records what the handler under test may do in the cluster, and notes what it has
// launched already.
func (h *handlers) recordRights(ctx context.Context) error {
	rights, err := h.installed.InCluster(h.under()).Rights(ctx)
	if err != nil {
		return err
	}
	for _, right := range rights {
		of := slices.Clone(right.NonResourceURLs)
		for _, group := range right.APIGroups {
			for _, resource := range right.Resources {
				of = append(of, group+"/"+resource)
			}
		}
		h.Record(history.NewRBACRule(right.Role, strings.Join(right.Verbs, ","), strings.Join(of, ",")))
	}
	h.launched, err = h.installed.InCluster(h.under()).LaunchedObjects(ctx)
	return err
}

// recordChanges records what a handler changed, by history.Event.By; objects are those that it has
// for nodes.
func (h *handlers) recordChanges(requests recording.Requests, objects []handler.WorkerObject, by string) {
	for _, c := range requests.Changes {
		if e := asEvent(c, objects); e.Kind != "" {
			said := h.Clock().Of(c.Asked)
			e.Owner, e.Action, e.Said, e.By = requests.User, c.Verb, &said, by
			h.Record(e)
		}
	}
	if requests.Whole {
		h.Record(history.NewAuditRead(requests.User, history.By(by)))
	}
}

// workerObjects are the objects that the handler has for each worker and each node that it
// launched; most handlers have none.
func (h *handlers) workerObjects(ctx context.Context) ([]handler.WorkerObject, error) {
	if !h.handler().KnowsWorkers() {
		return nil, nil
	}
	under, err := h.installed.WithWorkers(ctx, h.under())
	if err != nil {
		return nil, err
	}
	objects, err := under.WorkerObjects()
	return append(objects, h.launched...), err
}

// asEvent is what the history has of a change; an event of no kind if it does not matter.
func asEvent(c recording.Change, objects []handler.WorkerObject) history.Event {
	if c.Of == (schema.GroupResource{Resource: "pods"}) {
		if slices.Contains([]string{recording.Evict, "delete", "deletecollection"}, c.Verb) {
			return history.NewHandlerTook(c.By, c.Namespace+"/"+c.Name)
		}
		return history.Event{}
	}
	if node, reason := aboutNode(c, objects); node != "" {
		return history.NewHandlerWrote(c.By, node, reason)
	}
	return history.Event{}
}

// aboutNode is the node that a handler's change is about, and which object it changed
// if not the Node itself; empty if it is about none. A handler writes to its object for
// a node all the time; only deleting it, such as a NodeClaim, means that the node is to
// go.
func aboutNode(c recording.Change, objects []handler.WorkerObject) (node, object string) {
	if c.Of == (schema.GroupResource{Resource: "nodes"}) && c.Verb != "delete" && c.Verb != "deletecollection" {
		return c.Name, ""
	}
	for _, o := range objects {
		if c.Verb == "delete" && c.Of == o.Of && c.Namespace == o.Namespace && c.Name == o.Name {
			return o.Node, o.Of.String() + " " + o.Name
		}
	}
	return "", ""
}

// followLogs begins to write the logs of the drill's handlers next to the history.
func (h *handlers) followLogs(ctx context.Context) error {
	for _, want := range h.Handlers {
		if i := h.installed.Installed(want.Name); i != nil && h.logs[i.FilePrefix()] == nil {
			if err := h.followLog(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *handlers) followLog(ctx context.Context, i *system.Installation) error {
	namespace, selector, err := h.installed.InCluster(i).Selector(ctx)
	if err != nil {
		return fmt.Errorf("follow the handler's log: %w", err)
	}
	file, err := os.Create(h.logFile(i))
	if err != nil {
		return fmt.Errorf("save the handler's log: %w", err)
	}
	log := recording.FollowLogs(ctx, h.cluster.Clientset, namespace, selector, h.Clock().Start(), file)
	h.logs[i.FilePrefix()] = func(ctx context.Context) error {
		return wrap.Errorf(errors.Join(log.Stop(ctx), file.Close()), "save the handler's log")
	}
	return nil
}

func (h *handlers) logFile(i *system.Installation) string {
	return filepath.Join(h.Dir, i.FilePrefix()+".log")
}

// saveLogs ends the logs. Those of a handler that did not become ready begin here.
func (h *handlers) saveLogs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	var errs []error
	for _, want := range h.Handlers {
		i := h.installed.Installed(want.Name)
		if i == nil || h.logs[i.FilePrefix()] != nil {
			continue
		}
		if err := h.followLog(ctx, i); err != nil {
			errs = append(errs, os.WriteFile(h.logFile(i), fmt.Appendf(nil, "the handler's log could not be read: %v\n", err), 0o644))
		}
	}
	for _, stop := range h.logs {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}
