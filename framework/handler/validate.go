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
	"github.com/spotdrill/spotdrill/kind"
)

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// findings gathers all that is wrong with a description.
type findings struct {
	d    Description
	errs []error
}

func (f *findings) wrong(field, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: %s", f.d.At(field), fmt.Sprintf(format, args...)))
}

// oneOf wants a value that is allowed.
func (f *findings) oneOf(field, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		f.wrong(field, "%q is not known; allowed: %s", value, strings.Join(allowed, ", "))
	}
}

// maybe is oneOf for a field that can be left out.
func (f *findings) maybe(field, value string, allowed []string) {
	if value != "" {
		f.oneOf(field, value, allowed)
	}
}

// validate reports all that is wrong at once.
func (d Description) validate() error {
	f := &findings{d: d}
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
	if len(d.Manifests) == 0 {
		if len(d.Features) > 0 {
			f.wrong("features", "a handler that installs nothing cannot claim any")
		}
		return errors.Join(f.errs...)
	}
	if d.Version == "" && d.Image.Built == "" {
		f.wrong("version", "must not be empty: a report must say what was tested")
	}
	if strings.Count(d.Ready.Deployment, "/") != 1 {
		f.wrong("ready.deployment", "%q is not NAMESPACE/NAME; without it nobody knows when the handler works", d.Ready.Deployment)
	}
	if !d.Marks.Unschedulable && d.Marks.Taint == "" {
		f.wrong("marks", "wants unschedulable, taint or both: how else would a node that is being drained be told?")
	}
	return errors.Join(f.errs...)
}

func (f *findings) image(i Image) {
	f.maybe("image.built", i.Built, []string{builtSelf})
	f.maybe("image.recipe", i.Recipe, kind.Recipes())
	if i.Ref != "" && i.Built != "" {
		f.wrong("image", "wants one of ref and built, not both")
	}
	if len(i.Build) > 0 && (i.Ref == "" || i.Recipe != "") {
		f.wrong("image.build", "wants ref, which is what it makes, and no recipe")
	}
	if i.Recipe != "" && i.Ref == "" {
		f.wrong("image.recipe", "wants ref as well: the image is built only where no registry gives it")
	}
}

// claims looks at what the handler says of its behaviour.
func (f *findings) claims() {
	for i, claimed := range f.d.Features {
		f.oneOf(fmt.Sprintf("features[%d]", i), claimed, feature.Names())
	}
	for _, feature := range slices.Sorted(maps.Keys(f.d.Settings)) {
		if !f.d.Claims(feature) {
			f.wrong("settings."+feature, "is not among the features that the handler claims")
		}
	}
	f.maybe("commitPoint", string(f.d.CommitPoint), history.Words(history.CommitPoints()))
	for i, action := range f.d.SQSActions {
		if slices.Contains(PolicyActions(), action) {
			f.wrong(fmt.Sprintf("sqsActions[%d]", i), "%s is part of the policy anyway: %s", action, strings.Join(PolicyActions(), ", "))
		}
	}
	for _, of := range f.d.byClause() {
		for _, clause := range slices.Sorted(maps.Keys(of.said)) {
			if strings.TrimSpace(of.said[clause]) == "" {
				f.wrong(of.field+"."+clause, "wants a sentence that says how, or why")
			}
		}
	}
}

func (f *findings) manifests(field string, names []string) {
	for i, name := range names {
		if !fs.ValidPath(name) {
			f.wrong(fmt.Sprintf("%s[%d]", field, i), "%q is not a path beside or below the description", name)
		}
	}
}

func (f *findings) workers(w Workers) {
	f.maybe("workers.capacity", w.Capacity, []string{kind.Spot, kind.OnDemand})
	f.manifests("workers.manifests", w.Manifests)
	if w.Condition != "" && len(w.Manifests) == 0 {
		f.wrong("workers.condition", "there are no manifests whose objects could have it")
	}
	if (len(w.Manifests) > 0 || len(w.Tags) > 0) && len(f.d.Manifests) == 0 {
		f.wrong("workers", "a handler that installs nothing needs nothing of a worker")
	}
	for _, key := range slices.Sorted(maps.Keys(w.Tags)) {
		for _, found := range placeholder.FindAllStringSubmatch(w.Tags[key], -1) {
			f.oneOf("workers.tags."+key, found[1], slices.Concat(Placeholders(), WorkerPlaceholders()))
		}
	}
}
