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

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
)

// recordRights records what the handler may do in the cluster.
func (r *runner) recordRights(ctx context.Context) error {
	rights, err := r.handler().Rights(ctx, r.sys.Cluster.Config, r.sys.Settings)
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
		r.rec.Record(history.NewRBACRule(right.Role, strings.Join(right.Verbs, ","), strings.Join(of, ",")))
	}
	return nil
}

// requests are what the handler requested of the API server since the drills began; none
// if there is no handler.
func (p *players) requests(ctx context.Context) (cluster.Requests, error) {
	user, err := p.all[0].handler().User(ctx, p.sys.Cluster.Config, p.sys.Settings)
	if err != nil || user == "" {
		return cluster.Requests{}, err
	}
	return p.sys.Cluster.AuditSince(ctx, p.audit, user)
}

// recordRequests records what the handler requested of the API server. The rights that
// it used cannot be split by drill, so only the first drill records them.
func (p *players) recordRequests(ctx context.Context) error {
	first := p.all[0]
	requests, err := p.requests(ctx)
	if requests.User == "" {
		return err
	}
	for _, e := range requests.Used {
		first.rec.Record(e)
	}
	objects, unknown := first.workerObjects(ctx)
	for _, r := range p.all {
		r.recordChanges(requests, objects, "")
	}
	return errors.Join(err, unknown, p.recordSecond(ctx))
}

// recordSecond records what a second handler changed. There is one drill then.
func (p *players) recordSecond(ctx context.Context) error {
	r := p.all[0]
	if r.Second == nil {
		return nil
	}
	user, err := r.Second.User(ctx, p.sys.Cluster.Config, p.sys.SettingsOfSecond())
	if err != nil {
		return err
	}
	requests, err := p.sys.Cluster.AuditSince(ctx, p.audit, user)
	r.recordChanges(requests, nil, history.SecondHandler)
	return err
}

// recordChanges records what a handler changed, by history.Event.By; objects are those that it has
// for nodes.
func (r *runner) recordChanges(requests cluster.Requests, objects []handler.WorkerObject, by string) {
	for _, c := range requests.Changes {
		if e := asEvent(c, objects); e.Kind != "" {
			said := r.rec.Clock().Of(c.Asked)
			e.Owner, e.Action, e.Said, e.By = requests.User, c.Verb, &said, by
			r.rec.Record(e)
		}
	}
	if requests.Whole {
		r.rec.Record(history.NewAuditRead(requests.User, history.By(by)))
	}
}

// workerObjects are the objects that the handler has for each worker and each node that it
// launched; most handlers have none.
func (r *runner) workerObjects(ctx context.Context) ([]handler.WorkerObject, error) {
	if !r.handler().KnowsWorkers() {
		return nil, nil
	}
	settings, err := r.sys.Equipment(ctx, r.handler())
	if err != nil {
		return nil, err
	}
	objects, err := r.handler().WorkerObjects(settings)
	return append(objects, r.launched...), err
}

// asEvent is what the history has of a change; an event of no kind if it does not matter.
func asEvent(c cluster.Change, objects []handler.WorkerObject) history.Event {
	if c.Of == (schema.GroupResource{Resource: "pods"}) {
		if slices.Contains([]string{cluster.Evict, "delete", "deletecollection"}, c.Verb) {
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
func aboutNode(c cluster.Change, objects []handler.WorkerObject) (node, object string) {
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

// saveHandlerLog saves the handlers' logs of the drill beside the history.
func (r *runner) saveHandlerLog(ctx context.Context) error {
	under, _ := r.sys.Installed()
	if under == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	err := r.saveLog(ctx, *under, r.sys.Settings, "handler.log")
	if r.Second != nil {
		err = errors.Join(err, r.saveLog(ctx, *r.Second, r.sys.SettingsOfSecond(), "second-handler.log"))
	}
	return err
}

func (r *runner) saveLog(ctx context.Context, d handler.Description, settings handler.Settings, file string) error {
	text, err := d.Logs(ctx, r.sys.Cluster.Config, settings, r.rec.Clock().Start())
	if err != nil {
		text = fmt.Sprintf("the handler's log could not be read: %v\n", err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, file), []byte(text), 0o644); err != nil {
		return fmt.Errorf("save the handler's log: %w", err)
	}
	return nil
}
