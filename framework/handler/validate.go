package handler

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/feature"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/kind"
)

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// problems collects all errors of a description.
type problems struct {
	d      Description
	unread error // what could not be read
	errs   []error
}

func (f *problems) wrong(field, format string, args ...any) {
	if f.unread != nil && strict.Follows(f.unread, f.d.text, field) {
		return
	}
	f.errs = append(f.errs, fmt.Errorf("%s: %s", f.d.At(field), fmt.Sprintf(format, args...)))
}

// oneOf requires an allowed value.
func (f *problems) oneOf(field, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		f.wrong(field, "%q is not known%s", value, strict.Among(value, allowed))
	}
}

// maybe is oneOf for an optional field.
func (f *problems) maybe(field, value string, allowed []string) {
	if value != "" {
		f.oneOf(field, value, allowed)
	}
}

// validate reports all errors at once, but not those that only follow from what could not be read.
func (d Description) validate(unread error) error {
	f := &problems{d: d, unread: unread}
	if d.APIVersion != APIVersion {
		f.wrong("apiVersion", "%q is not known; allowed: %s", d.APIVersion, APIVersion)
	}
	if d.Kind != Kind {
		f.wrong("kind", "%q is not known; allowed: %s", d.Kind, Kind)
	}
	if !label.MatchString(d.Name) {
		f.wrong("name", "%q is not a DNS label: up to 63 of a-z, 0-9 and -", d.Name)
	}
	f.image(d.Image)
	f.claims()
	f.manifests("manifests", d.Manifests)
	f.workers(d.Workers)
	if (d.Launches.APIVersion == "") != (d.Launches.Kind == "") {
		f.wrong("launches", "requires both apiVersion and kind")
	}
	if d.Claims(feature.Launch) && d.Launches.Kind == "" {
		f.wrong("launches", "must not be empty with the feature %s: what it launches has to be removed", feature.Launch)
	}
	if len(d.Manifests) == 0 {
		if len(d.Features) > 0 {
			f.wrong("features", "a handler that installs nothing cannot claim any")
		}
		return errors.Join(f.errs...)
	}
	if d.Version == "" && d.Image.Built == "" {
		f.wrong("version", "must not be empty: a report must describe what was tested")
	}
	f.ready(d.Ready)
	if !d.Marks.Unschedulable && d.Marks.Taint == "" {
		f.wrong("marks", "needs unschedulable, taint or both: they show which node the handler drains")
	}
	return errors.Join(f.errs...)
}

// ready checks where the handler runs.
func (f *problems) ready(r Ready) {
	switch {
	case r.DaemonSet != "" && r.Deployment != "":
		f.wrong("ready.daemonSet", "is not allowed with deployment: a handler is one or the other")
	case r.DaemonSet != "" && strings.Count(r.DaemonSet, "/") != 1:
		f.wrong("ready.daemonSet", "%q is not NAMESPACE/NAME", r.DaemonSet)
	case r.DaemonSet == "" && strings.Count(r.Deployment, "/") != 1:
		f.wrong("ready.deployment", "%q is not NAMESPACE/NAME, which is needed to see when the handler is ready", r.Deployment)
	}
	if !f.d.ReadsQueue() && r.DaemonSet == "" {
		f.wrong("ready.daemonSet", "is required with reads metadata: only a pod of the node can read its metadata; a handler that gets its notices from the queue has reads: [queue, metadata]")
	}
	if !f.d.ReadsQueue() && f.d.Workers.Capacity != history.Spot {
		f.wrong("workers.capacity", "must be spot with reads metadata: only spot nodes have the service here")
	}
}

func (f *problems) image(i Image) {
	f.maybe("image.built", i.Built, []string{builtSelf})
	f.maybe("image.recipe", i.Recipe, kind.Recipes())
	if i.Ref != "" && i.Built != "" {
		f.wrong("image", "needs either ref or built, not both")
	}
	if len(i.Build) > 0 && (i.Ref == "" || i.Recipe != "") {
		f.wrong("image.build", "needs ref, the image that it builds, and no recipe")
	}
	if i.Recipe != "" && i.Ref == "" {
		f.wrong("image.recipe", "needs ref, too: the image is only built if no registry has it")
	}
}

// claims checks what the handler claims about its behaviour.
func (f *problems) claims() {
	for i, claimed := range f.d.Features {
		f.oneOf(fmt.Sprintf("features[%d]", i), claimed, feature.Names())
	}
	for _, name := range slices.Sorted(maps.Keys(f.d.Settings)) {
		if slices.Contains(feature.Names(), name) && !f.d.Claims(name) {
			f.wrong("settings."+name, "is not among the features that the handler claims")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.d.Configurations)) {
		f.oneOf("configurations."+name, name, feature.Reconfigured())
		f.manifests("configurations."+name+".before", f.d.Configurations[name].Before)
		f.manifests("configurations."+name+".after", f.d.Configurations[name].After)
	}
	for _, name := range feature.Reconfigured() {
		if f.d.Claims(name) != (len(f.d.Configurations[name].After) > 0) {
			f.wrong("configurations."+name+".after", "is required with the feature %s, and only then: a drill changes the configuration in its middle", name)
		}
	}
	for _, source := range f.d.Reads {
		f.maybe("reads", string(source), history.Words(history.NoticeSources()))
	}
	if len(f.d.Reads) > len(slices.Compact(slices.Sorted(slices.Values(f.d.Reads)))) {
		f.wrong("reads", "names a source twice")
	}
	if !f.d.ReadsQueue() && (f.d.CommitPoint != "" || len(f.d.SQSActions) > 0 || len(f.d.Keeps) > 0) {
		f.wrong("reads", "with metadata there are no messages: commitPoint, sqsActions and keeps are not allowed")
	}
	f.maybe("commitPoint", string(f.d.CommitPoint), history.Words(history.CommitPoints()))
	for i, action := range f.d.SQSActions {
		if slices.Contains(PolicyActions(), action) {
			f.wrong(fmt.Sprintf("sqsActions[%d]", i), "%s is part of the policy anyway: %s", action, strings.Join(PolicyActions(), ", "))
		}
	}
	for _, of := range f.d.byScenario() {
		for _, scenario := range slices.Sorted(maps.Keys(of.reasons)) {
			if strings.TrimSpace(of.reasons[scenario]) == "" {
				f.wrong(of.field+"."+scenario, "needs a sentence that describes how, or why")
			}
		}
	}
}

func (f *problems) manifests(field string, names []string) {
	for i, name := range names {
		if !fs.ValidPath(name) {
			f.wrong(fmt.Sprintf("%s[%d]", field, i), "%q is not a path in the folder of the description or below", name)
		}
	}
}

func (f *problems) workers(w Workers) {
	f.maybe("workers.capacity", w.Capacity, []string{history.Spot, history.OnDemand})
	f.manifests("workers.manifests", w.Manifests)
	if w.Condition != "" && len(w.Manifests) == 0 {
		f.wrong("workers.condition", "needs manifests, whose objects have it")
	}
	if (len(w.Manifests) > 0 || len(w.Tags) > 0 || len(w.Labels) > 0) && len(f.d.Manifests) == 0 {
		f.wrong("workers", "a handler that installs nothing can have no objects, tags or labels for workers")
	}
	f.filled("workers.tags", w.Tags)
	f.filled("workers.labels", w.Labels)
}

// filled checks the placeholders in values for workers.
func (f *problems) filled(field string, values map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		for _, found := range placeholder.FindAllStringSubmatch(values[key], -1) {
			f.oneOf(field+"."+key, found[1], namesOf(Settings{}.valuesFor(Worker{})))
		}
	}
}
