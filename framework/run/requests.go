package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recording"
	"github.com/spotdrill/spotdrill/framework/system"
)

// recordRights records what the handler under test may do in the cluster, and notes what it has
// launched already.
func (h *handlers) recordRights(ctx context.Context) error {
	rights, err := h.sys.InCluster(h.under()).Rights(ctx)
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
	h.launched, err = h.sys.InCluster(h.under()).LaunchedObjects(ctx)
	return err
}

// requests are what the handler under test requested of the API server since the drills began;
// none if there is no handler.
func (p *Play) requests(ctx context.Context) (recording.Requests, error) {
	return p.requestsOf(ctx, p.Drills[0].under())
}

// requestsOf are what the handler of an installation requested since the drills began.
func (p *Play) requestsOf(ctx context.Context, i *system.Installation) (recording.Requests, error) {
	user, err := p.sys.InCluster(i).User(ctx)
	if err != nil || user == "" {
		return recording.Requests{}, err
	}
	return p.sys.AuditLog().Since(ctx, p.audit, user)
}

// recordRequests records what the handlers requested of the API server. The rights that
// the one under test used cannot be split by drill, so only the first drill records them.
func (p *Play) recordRequests(ctx context.Context) error {
	first := p.Drills[0].handlers
	requests, err := p.requests(ctx)
	if requests.User == "" {
		return err
	}
	for _, e := range requests.Used {
		first.Record(e)
	}
	objects, unknown := first.workerObjects(ctx)
	for _, r := range p.Drills {
		r.handlers.recordChanges(requests, objects, history.UnderTest)
	}
	return errors.Join(err, unknown, p.recordOthers(ctx))
}

// recordOthers records what the other handlers changed. There is one drill then.
func (p *Play) recordOthers(ctx context.Context) error {
	first := p.Drills[0].handlers
	var errs []error
	for n := range first.Handlers[1:] {
		other := &first.Handlers[n+1]
		requests, err := p.requestsOf(ctx, other)
		first.recordChanges(requests, nil, other.Name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
	under, err := h.sys.WithWorkers(ctx, h.under())
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

// saveLogs saves the handlers' logs of the drill next to the history.
func (h *handlers) saveLogs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	var errs []error
	for _, want := range h.Handlers {
		if i := h.sys.Installed(want.Name); i != nil {
			errs = append(errs, h.saveLog(ctx, i))
		}
	}
	return errors.Join(errs...)
}

func (h *handlers) saveLog(ctx context.Context, i *system.Installation) error {
	text, err := h.sys.InCluster(i).Logs(ctx, h.Clock().Start())
	if err != nil {
		text = fmt.Sprintf("the handler's log could not be read: %v\n", err)
	}
	if err := os.WriteFile(filepath.Join(h.Dir, i.FilePrefix()+".log"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("save the handler's log: %w", err)
	}
	return nil
}
