// Package handler describes the interruption handler under test as data: a file describes
// what it is, what to install and what it claims. The package installs it, waits until
// it is ready, and removes it.
package handler

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/iam"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/kind"
)

// APIVersion and Kind are the first fields of every description.
const (
	APIVersion = "spotdrill.dev/v1alpha1"
	Kind       = strict.HandlerUnderTest
)

// Description is a handler under test.
type Description struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	// Name is its name in reports; a DNS label.
	Name string `yaml:"name"`
	// Version of the handler; optional if the image is spotdrill's own.
	Version string `yaml:"version,omitempty"`
	// URL is where the handler comes from.
	URL   string `yaml:"url,omitempty"`
	Image Image  `yaml:"image,omitempty"`
	// Manifests are files in the folder of the description or below. They may contain
	// placeholders such as ${QUEUE_URL}. Without manifests nothing is installed.
	Manifests []string `yaml:"manifests,omitempty"`
	Workers   Workers  `yaml:"workers,omitempty"`
	// Launches is the kind of the objects that the handler makes for the nodes that it
	// launches. They are removed after it has terminated, despite any finalizers.
	Launches Launches `yaml:"launches,omitempty"`
	Ready    Ready    `yaml:"ready,omitempty"`
	Marks    Marks    `yaml:"marks,omitempty"`
	// Reads is where it reads notices. With metadata it runs on each node, as a DaemonSet,
	// and reads what the metadata of the node's instance announces. With [queue, metadata] it
	// gets its notices from the queue, and the metadata of its instance shows it what it is:
	// its identity, its region, its credentials.
	Reads strict.List[history.NoticeSource] `yaml:"reads,omitempty"`
	// ElectsLeader reports whether only one of its replicas receives messages: the leader.
	ElectsLeader bool `yaml:"electsLeader,omitempty"`
	// NoWatch reports whether the handler watches nothing of the API server, so that an idle one
	// makes no call.
	NoWatch bool `yaml:"noWatch,omitempty"`
	// DeletesNode reports whether the handler deletes the Node object itself.
	DeletesNode bool `yaml:"deletesNode,omitempty"`
	// CommitPoint is when it may delete a message: when it is received, when the drain
	// is recorded in the cluster, or when the node is drained.
	CommitPoint history.CommitPoint `yaml:"commitPoint,omitempty"`
	// Features are what the handler claims; a claim that does not hold is a failure.
	Features []string `yaml:"features,omitempty"`
	// Settings are environment variables of the handler's containers, by the names of claimed
	// features, or of settings that scenarios have: they are set in the drills of those.
	Settings map[string]map[string]string `yaml:"settings,omitempty"`
	// Configurations describe, for each claimed feature that requires another configuration,
	// what that is.
	Configurations map[string]Configuration `yaml:"configurations,omitempty"`
	// SQSActions are those that it may call in addition to DeleteMessage,
	// GetQueueAttributes, GetQueueUrl and ReceiveMessage.
	SQSActions []string `yaml:"sqsActions,omitempty"`
	// Deviations are the scenarios that the handler is known to
	// violate, each with a sentence that describes how. They still fail: the report shows
	// the sentence next to the failure.
	Deviations map[string]string `yaml:"deviations,omitempty"`
	// Keeps are the scenarios in which the handler deliberately does not delete a message
	// that needs no drain, each with the reason: a dead-letter queue takes it, for example.
	Keeps map[string]string `yaml:"keeps,omitempty"`

	// File is where the description was read from.
	File string `yaml:"-"`
	// Binary, where set, is another build of this product, which the handler's image
	// runs in place of the present one.
	Binary string `yaml:"-"`
	// Release, where set, is another version of the handler, whose image is used.
	Release *kind.Release `yaml:"-"`
	// Always are environment variables of the handler's containers in every drill, over
	// the settings of a feature.
	Always map[string]string `yaml:"-"`

	// Policy, where set, are the files of the IAM policies that the handler has, by comma, and Permitted
	// the actions of SQS that they allow together: no other may be called, and calls of others are refused.
	// Unjudged are the actions of KMS in them, which no drill calls.
	Policy    string   `yaml:"-"`
	Permitted []string `yaml:"-"`
	Unjudged  []string `yaml:"-"`
	// Doubts are actions of SQS that count as permitted, and are not known to be, with the reasons.
	Doubts []string `yaml:"-"`

	text      []byte // of File
	documents []document
	perWorker []document
	// definitions are those that come with the release that is run.
	definitions []document
	// configurations are those of Configurations.
	configurations map[string]configuration
	// feature and env are those of the current drill, see For.
	feature string
	env     map[string]string
}

// Image is the value of ${IMAGE}: a reference, which is pulled unless the engine has it,
// or the product's own image.
type Image struct {
	// Ref is pulled unless the container engine has it.
	Ref string `yaml:"ref,omitempty"`
	// Recipe builds the image of Ref if no registry has it. The CustomResourceDefinitions of that release are
	// installed before the manifests, but for those that the manifests have.
	Recipe string `yaml:"recipe,omitempty"`
	// Build is a command and its arguments, which builds the image of Ref. It runs in
	// the description's folder before the drills. Its environment has IMAGE, which is
	// Ref, and ENGINE, docker or podman, which must have the image afterwards.
	Build []string `yaml:"build,omitempty"`
	// Built is self for the product's own image.
	Built string `yaml:"built,omitempty"`
}

// builtSelf in Image.Built is the image of this program.
const builtSelf = "self"

// Workers is what the handler needs for the workers that it manages, such as a NodeClaim
// for each.
type Workers struct {
	// Capacity selects the workers; empty for all.
	Capacity string `yaml:"capacity,omitempty"`
	// Manifests are rendered once for each worker, with the placeholders of the
	// handler's manifests and those of a worker, such as ${NODE_NAME}. The objects and
	// their status are created before the handler starts. They are removed after it has
	// terminated, despite any finalizers.
	Manifests []string `yaml:"manifests,omitempty"`
	// Condition is a condition of these objects: True once the handler knows the
	// worker. If it is empty, nothing waits for it.
	Condition string `yaml:"condition,omitempty"`
	// Tags are set on the workers' EC2 instances; values may contain placeholders.
	Tags map[string]string `yaml:"tags,omitempty"`
	// Labels are set on the workers' Node objects before the handler starts; values may
	// contain placeholders. They are removed with the handler.
	Labels map[string]string `yaml:"labels,omitempty"`
}

// Configuration is changes to installed objects: manifests of objects with their names and
// the fields of spec that change. They are merged as RFC 7396 has it: a list replaces a list.
type Configuration struct {
	// Before are merged when the handler is installed for a drill of the feature, before
	// anything is launched.
	Before []string `yaml:"before,omitempty"`
	// After are merged in the middle of the drill, by the step that configures the handler.
	After []string `yaml:"after"`
}

// configuration is a Configuration as it was read.
type configuration struct{ before, after []document }

// Launches is a kind of objects, such as NodeClaim.
type Launches struct {
	// APIVersion is that of the objects, such as karpenter.sh/v1.
	APIVersion string `yaml:"apiVersion,omitempty" json:"apiVersion,omitempty"`
	// Kind is that of the objects, such as NodeClaim.
	Kind string `yaml:"kind,omitempty" json:"kind,omitempty"`
}

// Ready shows when the handler is ready.
type Ready struct {
	// Deployment is NAMESPACE/NAME, with placeholders. All its replicas must be
	// available.
	Deployment string `yaml:"deployment,omitempty"`
	// DaemonSet is NAMESPACE/NAME, with placeholders. It must be available on each of the
	// handler's workers.
	DaemonSet string `yaml:"daemonSet,omitempty"`
	// Timeout of the wait.
	Timeout strict.Duration `yaml:"timeout,omitempty"`
}

// Marks are what the handler sets on a node that it drains.
type Marks struct {
	// Unschedulable reports whether it cordons the node.
	Unschedulable bool `yaml:"unschedulable,omitempty"`
	// Taint is the key of its taint, without effect.
	Taint string `yaml:"taint,omitempty"`
	// Event is the reason of the Kubernetes event on the node that the handler sends once
	// at the start of each drain; it shows whether a drain was done twice. Empty if the
	// handler sends no such event.
	Event string `yaml:"event,omitempty"`
	// Reporter is the component that the handler's Kubernetes events name as their
	// reporter (reportingController, or source.component). If it is empty, the events of
	// the handler are recognized by its name, by its Deployment's, and by their text.
	Reporter string `yaml:"reporter,omitempty"`
}

// DefaultCommitPoint is the default of CommitPoint.
const DefaultCommitPoint = history.CommitRecorded

// PolicyActions are the SQS actions in the usual IAM policy of a handler.
func PolicyActions() []string {
	return []string{"DeleteMessage", "GetQueueAttributes", "GetQueueUrl", "ReceiveMessage"}
}

// Claims reports whether the handler claims the feature.
func (d Description) Claims(feature string) bool { return slices.Contains(d.Features, feature) }

// Meta is what judging needs to know about the handler.
func (d Description) Meta() history.Handler {
	return history.Handler{
		Name: d.Name, Version: cmp.Or(d.Version, d.ownVersion()),
		Unschedulable: d.Marks.Unschedulable, Taint: d.Marks.Taint, DrainEvent: d.Marks.Event, Reporter: d.Marks.Reporter, DeletesNode: d.DeletesNode,
		CommitPoint: d.CommitPoint, SQSActions: d.sqsActions(), Deviations: d.Deviations, Keeps: d.Keeps, Reads: d.noticesFrom(),
	}
}

// ReadsMetadata reports whether the handler reads the metadata of its instance: notices, or, if it
// also reads the queue, what the instance is.
func (d Description) ReadsMetadata() bool { return slices.Contains(d.Reads, history.FromMetadata) }

// ReadsQueue reports whether the handler gets its notices from the queue.
func (d Description) ReadsQueue() bool {
	return !d.ReadsMetadata() || slices.Contains(d.Reads, history.FromQueue)
}

// noticesFrom is where its notices come from; empty for the default.
func (d Description) noticesFrom() history.NoticeSource {
	switch {
	case len(d.Reads) == 0:
		return ""
	case d.ReadsQueue():
		return history.FromQueue
	}
	return history.FromMetadata
}

// OnEachNode reports whether the handler is a DaemonSet.
func (d Description) OnEachNode() bool { return d.Ready.DaemonSet != "" }

// sqsActions are all actions that the handler may call; none if it reads no queue.
func (d Description) sqsActions() []string {
	switch {
	case len(d.documents) == 0 || !d.ReadsQueue():
		return nil
	case d.Policy != "":
		return d.Permitted
	}
	return slices.Concat(PolicyActions(), d.SQSActions)
}

// For returns the handler with its settings for drills of a feature, and of a setting.
func (d Description) For(feature, setting string) Description {
	d.feature, d.env = feature, map[string]string{}
	for _, env := range []map[string]string{d.Settings[feature], d.Settings[setting], d.Always} {
		maps.Copy(d.env, env)
	}
	return d
}

// WithPolicies is the handler with the IAM policies in the files, taken together: what one denies, none
// allows. Without files it is the handler itself.
func (d Description) WithPolicies(files ...string) (Description, error) {
	if len(files) == 0 {
		return d, nil
	}
	if !d.ReadsQueue() || len(d.documents) == 0 {
		return d, fmt.Errorf("handler %s reads no queue: an IAM policy changes nothing for it", d.Name)
	}
	all := make([]iam.Policy, len(files))
	var errs []error
	for i, file := range files {
		text, err := readMost(os.DirFS(filepath.Dir(file)), filepath.Base(file))
		if err != nil {
			errs = append(errs, fmt.Errorf("read the IAM policy: %w", err))
			continue
		}
		if all[i], err = iam.ParseIdentity(text); err != nil {
			errs = append(errs, fmt.Errorf("IAM policy %s: %w", file, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return d, err
	}
	policy := iam.Join(all...)
	d.Policy = strings.Join(files, ",")
	d.Permitted, d.Doubts = policy.Allowed()
	d.Unjudged = policy.Keys()
	if len(d.Permitted) == 0 {
		return d, fmt.Errorf("the IAM policy allows no action of SQS, so it is not that of a handler that reads a queue: %s", strings.Join(files, ", "))
	}
	return d, nil
}

// PolicyNote is what no drill can judge of the handler's IAM policy; empty if there is nothing.
func (d Description) PolicyNote() string {
	var notes []string
	if len(d.Unjudged) > 0 {
		notes = append(notes, fmt.Sprintf("the IAM policy allows %s, which cannot be judged: the queue of drills is not encrypted with a key of KMS", strings.Join(d.Unjudged, ", ")))
	}
	if len(d.Doubts) > 0 {
		notes = append(notes, "actions of SQS that the IAM policy may refuse, and drills permit: "+strings.Join(d.Doubts, "; "))
	}
	return strings.Join(notes, "; ")
}

// AtRelease is the handler at another version, with the image and the CustomResourceDefinitions of that release. Its
// manifests stay.
func (d Description) AtRelease(release kind.Release) (Description, error) {
	var err error
	d.Release, d.Version = &release, release.Version
	d.definitions, err = d.definitionsOf(release)
	return d, err
}

// AtVersions is the handler at the version that was chosen for it, if there is one and it is not that of the description.
func (d Description) AtVersions(chosen kind.Versions) (Description, error) {
	program := d.Program()
	version := chosen.Of(program)
	if version == "" || version == d.Version {
		return d, nil
	}
	return d.AtRelease(kind.Release{Program: program, Version: version})
}

// Program is the one whose releases the handler that comes with the product is; "" if it is none of them.
func (d Description) Program() kind.Program {
	if r, ok := kind.ReleaseNamed(d.Image.Recipe); ok && d.Embedded() {
		return r.Program
	}
	return ""
}

// AtVersions are the handler under test and another one, nil if there is none, at the versions that were chosen. It is
// an error if a version was chosen for a handler that is neither of them.
func AtVersions(chosen kind.Versions, under Description, other *Description) (Description, *Description, error) {
	names, programs := under.Name, []kind.Program{under.Program()}
	if other != nil {
		names, programs = names+" and "+other.Name, append(programs, other.Program())
	}
	for _, p := range []kind.Program{kind.Karpenter, kind.NTH} {
		if version := chosen.Of(p); version != "" && !slices.Contains(programs, p) {
			return under, other, fmt.Errorf("--%s %s changes nothing: the handler is %s; choose it with --handler %[1]s", p, version, names)
		}
	}
	under, err := under.AtVersions(chosen)
	if err != nil || other == nil {
		return under, other, err
	}
	next, err := other.AtVersions(chosen)
	return under, &next, err
}

// Same reports whether o is this handler with the same settings.
func (d Description) Same(o Description) bool {
	return d.Name == o.Name && d.File == o.File && d.Binary == o.Binary && d.Version == o.Version && d.Policy == o.Policy &&
		maps.Equal(d.env, o.env) && slices.Equal(d.configured().before, o.configured().before)
}

// configured is the configuration of the current drill's feature.
func (d Description) configured() configuration { return d.configurations[d.feature] }

// At is the position of a field in the description: "FILE:LINE: field".
func (d Description) At(field string) string {
	return fmt.Sprintf("%s:%d: %s", d.File, strict.Line(d.text, field), field)
}

// Embedded reports whether the handler comes with the product.
func (d Description) Embedded() bool {
	return slices.Contains(Names(), d.Name) && d.File == embedded(d.Name)
}

// Reference is the argument for Load: the handler's name, or the path of its file.
func (d Description) Reference() string {
	if d.Embedded() {
		return d.Name
	}
	return d.File
}

// CheckScenarios returns an error if deviations or keeps name an unknown scenario.
func (d Description) CheckScenarios(names []string) error {
	var errs []error
	for _, of := range d.byScenario() {
		for _, scenario := range slices.Sorted(maps.Keys(of.reasons)) {
			if !slices.Contains(names, scenario) {
				errs = append(errs, fmt.Errorf("%s: no scenario has this name", d.At(of.field+"."+scenario)))
			}
		}
	}
	return errors.Join(errs...)
}

// reasonsByScenario is a field with a sentence for each of some scenarios.
type reasonsByScenario struct {
	field   string
	reasons map[string]string
}

func (d Description) byScenario() []reasonsByScenario {
	return []reasonsByScenario{{"deviations", d.Deviations}, {"keeps", d.Keeps}}
}

// ownVersion is the version of this program if the handler is a part of it.
func (d Description) ownVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && d.Image.Built == builtSelf {
		return info.Main.Version
	}
	return ""
}

// LeavesBehind reports whether this handler sets the taint or annotation with that key
// on nodes, so that it must be removed before the node's next drill.
func (d Description) LeavesBehind(key string) bool {
	return key != "" && key == d.Marks.Taint || LeavesBehind(key)
}

// LeavesBehind reports whether one of the handlers of the product sets the taint or
// annotation with that key on nodes.
func LeavesBehind(key string) bool {
	return key == "spotdrill.dev/draining" || key == "karpenter.sh/disrupted" || strings.HasPrefix(key, "aws-node-termination-handler/")
}
