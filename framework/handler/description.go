// Package handler holds the interruption handler under test as data: a file
// says what it is, what to install and what it claims; this package installs
// it, waits until it works, and takes it away again.
package handler

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// APIVersion and Kind head every description.
const (
	APIVersion = "spotdrill.dev/v1alpha1"
	Kind       = "HandlerUnderTest"
)

// Description is a handler under test.
type Description struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Name stands in every report; a DNS label.
	Name string `yaml:"name"`
	// Version of the handler; may be left out where the image is our own.
	Version string `yaml:"version,omitempty"`
	// URL is where the handler comes from.
	URL   string `yaml:"url,omitempty"`
	Image Image  `yaml:"image,omitempty"`
	// Manifests are files beside or below the description. They may hold
	// placeholders such as ${QUEUE_URL}. None: nothing is installed.
	Manifests []string `yaml:"manifests,omitempty"`
	Workers   Workers  `yaml:"workers,omitempty"`
	Ready     Ready    `yaml:"ready,omitempty"`
	Marks     Marks    `yaml:"marks,omitempty"`
	// DeletesNode is true where the handler removes the Node object itself.
	DeletesNode bool `yaml:"deletesNode,omitempty"`
	// CommitPoint is when it may delete a message: as soon as it is received, when
	// the drain is recorded in the cluster, or when the node is drained.
	CommitPoint history.CommitPoint `yaml:"commitPoint,omitempty"`
	// Features is what the handler claims; a claim that fails is a failure.
	Features []string `yaml:"features,omitempty"`
	// Settings holds, by a feature that is claimed, environment variables that the
	// handler's containers get for the drills of that feature.
	Settings map[string]map[string]string `yaml:"settings,omitempty"`
	// SQSActions are those that it may call beyond DeleteMessage, GetQueueAttributes,
	// GetQueueUrl and ReceiveMessage.
	SQSActions []string `yaml:"sqsActions,omitempty"`
	// Deviations are the clauses (names of scenarios) that the handler is known
	// not to keep, each with a sentence that says so. They still fail: the report
	// puts the sentence beside the failure.
	Deviations map[string]string `yaml:"deviations,omitempty"`
	// Keeps are the clauses in which the handler leaves a message in the queue that
	// calls for no drain, each with the reason: it goes on to a dead-letter queue.
	Keeps map[string]string `yaml:"keeps,omitempty"`

	// File is where the description was read from.
	File string `yaml:"-"`
	// Binary, where set, is another build of this product, which the handler's image
	// runs in place of the present one.
	Binary string `yaml:"-"`

	text      []byte // of File
	documents []document
	perWorker []document
	env       map[string]string // of the feature that is drilled, see For
}

// Image is what ${IMAGE} stands for: a reference, which is pulled unless the
// engine holds it, or the product's own image.
type Image struct {
	// Ref is what the container engine pulls, unless it holds it.
	Ref string `yaml:"ref,omitempty"`
	// Recipe builds the image of Ref where no registry gives it.
	Recipe string `yaml:"recipe,omitempty"`
	// Build is a command and its arguments, run in the description's folder before the
	// drills: it makes the image of Ref. In its environment are IMAGE, which is Ref, and
	// ENGINE, docker or podman, which has to hold the image then.
	Build []string `yaml:"build,omitempty"`
	// Built is self for the product's own image.
	Built string `yaml:"built,omitempty"`
}

// builtSelf in Image.Built is the image of this very program.
const builtSelf = "self"

// Workers is what the handler wants of the workers that it looks after, such as
// a NodeClaim for each.
type Workers struct {
	// Capacity chooses them. Empty: all.
	Capacity string `yaml:"capacity,omitempty"`
	// Manifests are rendered once for each worker, with the placeholders of the
	// handler's manifests and those of a worker, such as ${NODE_NAME}. The objects
	// are made before the handler starts, their status included, and removed after
	// it has ended, whatever finalizers they have.
	Manifests []string `yaml:"manifests,omitempty"`
	// Condition is what the status of each of these objects shows as True once
	// the handler knows the worker. Empty: nothing is waited for.
	Condition string `yaml:"condition,omitempty"`
	// Tags are given to the workers' EC2 instances; values may hold placeholders.
	Tags map[string]string `yaml:"tags,omitempty"`
}

// Ready says when the handler works.
type Ready struct {
	// Deployment is NAMESPACE/NAME, with placeholders. All its replicas must be
	// available.
	Deployment string `yaml:"deployment,omitempty"`
	// Timeout of the wait.
	Timeout strict.Duration `yaml:"timeout,omitempty"`
}

// Marks is what the handler puts on a node that it drains.
type Marks struct {
	// Unschedulable is true where it cordons the node.
	Unschedulable bool `yaml:"unschedulable,omitempty"`
	// Taint is the key of its taint, without effect.
	Taint string `yaml:"taint,omitempty"`
	// Event is the reason of the Kubernetes event on the node with which the
	// handler says that it starts a drain, once for each: a drain that was done
	// twice shows by it. Empty where the handler tells of none.
	Event string `yaml:"event,omitempty"`
}

// DefaultCommitPoint is that of a description that names none.
const DefaultCommitPoint = history.CommitRecorded

// PolicyActions are the SQS actions of the usual IAM policy of a handler.
func PolicyActions() []string {
	return []string{"DeleteMessage", "GetQueueAttributes", "GetQueueUrl", "ReceiveMessage"}
}

// Claims is true where the handler says that it has the feature.
func (d Description) Claims(feature string) bool { return slices.Contains(d.Features, feature) }

// Meta is what a judge must know of the handler.
func (d Description) Meta() history.Handler {
	return history.Handler{
		Name: d.Name, Version: cmp.Or(d.Version, d.ownVersion()),
		Unschedulable: d.Marks.Unschedulable, Taint: d.Marks.Taint, DrainEvent: d.Marks.Event, DeletesNode: d.DeletesNode,
		CommitPoint: d.CommitPoint, SQSActions: d.sqsActions(), Deviations: d.Deviations, Keeps: d.Keeps,
	}
}

// sqsActions are all that the handler may call; none where it reads no queue.
func (d Description) sqsActions() []string {
	if len(d.documents) == 0 {
		return nil
	}
	return slices.Concat(PolicyActions(), d.SQSActions)
}

// For is the handler as it is set for the drills of a feature.
func (d Description) For(feature string) Description {
	d.env = d.Settings[feature]
	return d
}

// Same is true where o is this handler with the same settings.
func (d Description) Same(o Description) bool {
	return d.Name == o.Name && d.File == o.File && d.Binary == o.Binary && maps.Equal(d.env, o.env)
}

// At names the place of a field in the description: "FILE:LINE: field".
func (d Description) At(field string) string {
	return fmt.Sprintf("%s:%d: %s", d.File, strict.Line(d.text, field), field)
}

// Embedded is true for a handler that comes with the product.
func (d Description) Embedded() bool {
	return slices.Contains(Names(), d.Name) && d.File == embedded(d.Name)
}

// Reference is what Load finds the handler by: its name, or the path of its file.
func (d Description) Reference() string {
	if d.Embedded() {
		return d.Name
	}
	return d.File
}

// CheckClauses is an error where deviations or keeps name none of the clauses.
func (d Description) CheckClauses(clauses []string) error {
	var errs []error
	for _, of := range d.byClause() {
		for _, clause := range slices.Sorted(maps.Keys(of.said)) {
			if !slices.Contains(clauses, clause) {
				errs = append(errs, fmt.Errorf("%s: no scenario has this name", d.At(of.field+"."+clause)))
			}
		}
	}
	return errors.Join(errs...)
}

// saidByClause is a field that says something of some clauses.
type saidByClause struct {
	field string
	said  map[string]string
}

func (d Description) byClause() []saidByClause {
	return []saidByClause{{"deviations", d.Deviations}, {"keeps", d.Keeps}}
}

// ownVersion is the version of this program, where the handler is a part of it.
func (d Description) ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && d.Image.Built == builtSelf {
		return info.Main.Version
	}
	return ""
}

// LeavesBehind is true for the key of a taint or annotation that this handler
// puts on a node and that must be gone before the node's next drill.
func (d Description) LeavesBehind(key string) bool {
	return key != "" && key == d.Marks.Taint || LeavesBehind(key)
}

// LeavesBehind is true for the key of a taint or annotation that one of the
// handlers known to us puts on a node: ours, Karpenter's, or those of the AWS
// Node Termination Handler.
func LeavesBehind(key string) bool {
	return key == "spotdrill.dev/draining" || key == "karpenter.sh/disrupted" || strings.HasPrefix(key, "aws-node-termination-handler/")
}
