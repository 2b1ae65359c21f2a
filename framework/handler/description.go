// Package handler holds the interruption handler under test as data: a file
// says what it is, what to install and what it claims; this package installs
// it, waits until it works, and takes it away again.
package handler

import (
	"cmp"
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
	URL     string `yaml:"url,omitempty"`
	Image   Image  `yaml:"image,omitempty"`
	// Manifests are files beside or below the description. They may hold the
	// placeholders of Placeholders. None: nothing is installed.
	Manifests []string `yaml:"manifests,omitempty"`
	Ready     Ready    `yaml:"ready,omitempty"`
	Marks     Marks    `yaml:"marks,omitempty"`
	// DeletesNode is true where the handler removes the Node object itself.
	DeletesNode bool `yaml:"deletesNode,omitempty"`
	// Features is what the handler claims: see Features.
	Features []string `yaml:"features,omitempty"`

	// File is where the description was read from.
	File string `yaml:"-"`

	documents []document
}

// Image is what ${IMAGE} stands for: a reference, or the product's own image.
// Exactly one is set where a manifest uses the placeholder.
type Image struct {
	Ref   string `yaml:"ref,omitempty"`
	Built string `yaml:"built,omitempty"` // self
}

// builtSelf in Image.Built is the image of this very program.
const builtSelf = "self"

// Ready says when the handler works.
type Ready struct {
	// Deployment is NAMESPACE/NAME, with placeholders. All its replicas must be
	// available.
	Deployment string `yaml:"deployment,omitempty"`
	// Timeout of the wait; DefaultReadyTimeout where it is left out.
	Timeout strict.Duration `yaml:"timeout,omitempty"`
}

// Marks is what the handler puts on a node that it drains.
type Marks struct {
	Unschedulable bool   `yaml:"unschedulable,omitempty"`
	Taint         string `yaml:"taint,omitempty"` // key, without effect
	// Event is the reason of the Kubernetes event on the node with which the
	// handler says that it starts a drain, once for each: a drain that was done
	// twice shows by it. Empty where the handler tells of none.
	Event string `yaml:"event,omitempty"`
}

// Features lists what a handler can claim.
func Features() []string {
	return []string{"spot", "state-change", "scheduled-change", "rebalance-event", "rebalance-drain", "capacity-reservation"}
}

// Claims is true where the handler says that it has the feature.
func (d Description) Claims(feature string) bool { return slices.Contains(d.Features, feature) }

// Meta is what a judge must know of the handler.
func (d Description) Meta() history.Handler {
	return history.Handler{
		Name: d.Name, Version: cmp.Or(d.Version, d.ownVersion()),
		Unschedulable: d.Marks.Unschedulable, Taint: d.Marks.Taint, DrainEvent: d.Marks.Event, DeletesNode: d.DeletesNode,
	}
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
