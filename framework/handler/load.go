package handler

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/strict"
)

//go:embed descriptions
var descriptions embed.FS

// DefaultReadyTimeout is how long a handler may take to become ready.
const DefaultReadyTimeout = 60 * time.Second

// Names lists the handlers that come with the product.
func Names() []string { return []string{"builtin", "none"} }

// None is the handler that does nothing: what happens without one.
func None() Description {
	return Description{APIVersion: APIVersion, Kind: Kind, Name: "none", File: embedded("none")}
}

// Load reads the description of a handler that comes with the product, by its
// name, or of one's own, by the path of its file. Its manifests are read as
// well. Errors read "FILE:LINE: what is wrong".
func Load(nameOrPath string) (Description, error) {
	if slices.Contains(Names(), nameOrPath) {
		return read(descriptions, embedded(nameOrPath), embedded(nameOrPath))
	}
	if !strings.ContainsAny(nameOrPath, `/\.`) {
		return Description{}, fmt.Errorf("no handler is named %q; known: %s, or the path of a description such as ./my-handler/handler.yaml",
			nameOrPath, strings.Join(Names(), ", "))
	}
	return read(os.DirFS(filepath.Dir(nameOrPath)), filepath.Base(nameOrPath), nameOrPath)
}

func embedded(name string) string { return path.Join("descriptions", name, "handler.yaml") }

// read reads the description called name; shown is how errors call it.
func read(files fs.FS, name, shown string) (Description, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return Description{}, fmt.Errorf("read the handler's description: %w", err)
	}
	d := Description{File: shown}
	if err := strict.Decode(shown, data, &d); err != nil {
		return Description{}, err
	}
	if d.Ready.Timeout == 0 {
		d.Ready.Timeout = strict.Duration(DefaultReadyTimeout)
	}
	if err := d.validate(data); err != nil {
		return Description{}, err
	}
	var errs []error
	for i, file := range d.Manifests {
		text, err := fs.ReadFile(files, path.Join(path.Dir(name), file))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: read manifest: %w", shown, strict.Line(data, fmt.Sprintf("manifests[%d]", i)), err))
			continue
		}
		documents, err := split(filepath.Join(filepath.Dir(shown), file), string(text))
		d.documents = append(d.documents, documents...)
		errs = append(errs, err)
	}
	return d, errors.Join(errs...)
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// validate reports all that is wrong at once.
func (d Description) validate(text []byte) error {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s:%d: %s: %s", d.File, strict.Line(text, field), field, fmt.Sprintf(format, args...)))
	}
	if d.APIVersion != APIVersion {
		wrong("apiVersion", "%q is not known; allowed: %s", d.APIVersion, APIVersion)
	}
	if d.Kind != Kind {
		wrong("kind", "%q is not known; allowed: %s", d.Kind, Kind)
	}
	if !label.MatchString(d.Name) {
		wrong("name", "%q is not a DNS label: up to 63 of a-z, 0-9 and -", d.Name)
	}
	if d.Image.Built != "" && d.Image.Built != builtSelf {
		wrong("image.built", "%q is not known; allowed: %s", d.Image.Built, builtSelf)
	}
	if d.Image.Ref != "" && d.Image.Built != "" {
		wrong("image", "wants one of ref and built, not both")
	}
	for i, feature := range d.Features {
		if !slices.Contains(Features(), feature) {
			wrong(fmt.Sprintf("features[%d]", i), "%q is not known; allowed: %s", feature, strings.Join(Features(), ", "))
		}
	}
	for i, file := range d.Manifests {
		if !fs.ValidPath(file) {
			wrong(fmt.Sprintf("manifests[%d]", i), "%q is not a path beside or below the description", file)
		}
	}
	if len(d.Manifests) == 0 {
		if len(d.Features) > 0 {
			wrong("features", "a handler that installs nothing cannot claim any")
		}
		return errors.Join(errs...)
	}
	if d.Version == "" && d.Image.Built == "" {
		wrong("version", "must not be empty: a report must say what was tested")
	}
	if strings.Count(d.Ready.Deployment, "/") != 1 {
		wrong("ready.deployment", "%q is not NAMESPACE/NAME; without it nobody knows when the handler works", d.Ready.Deployment)
	}
	if !d.Marks.Unschedulable && d.Marks.Taint == "" {
		wrong("marks", "wants unschedulable, taint or both: how else would a node that is being drained be told?")
	}
	return errors.Join(errs...)
}
