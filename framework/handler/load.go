package handler

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/kind"
)

//go:embed descriptions
var descriptions embed.FS

// DefaultReadyTimeout is how long a handler may take to become ready.
const DefaultReadyTimeout = 60 * time.Second

// Names lists the handlers that come with the product.
func Names() []string {
	return []string{"builtin", "builtin-imds", "karpenter", "nth", "nth-imds", "none"}
}

// None is the handler that does nothing, to see what happens without one.
func None() Description {
	return Description{APIVersion: APIVersion, Kind: Kind, Name: "none", File: embedded("none")}
}

// LoadPair reads the descriptions of the handler under test and, if two are named, of another
// one, which is nil otherwise. Errors: those of Load.
func LoadPair(namesOrPaths []string) (under Description, other *Description, err error) {
	if n := len(namesOrPaths); n < 1 || n > 2 {
		return under, nil, fmt.Errorf("%s: give one, or two for the drills of two handlers", history.Count(n, "handler"))
	}
	if under, err = Load(namesOrPaths[0]); err != nil || len(namesOrPaths) == 1 {
		return under, nil, err
	}
	next, err := Load(namesOrPaths[1])
	if err == nil && next.Name == under.Name {
		err = fmt.Errorf("handler %s is given twice: two handlers must differ", next.Name)
	}
	return under, &next, err
}

// Load reads the description of a handler and its manifests: by name for a handler
// that comes with the product, else by the path of its file or of the folder with a handler.yaml. Errors
// read "FILE:LINE: what is wrong".
func Load(nameOrPath string) (Description, error) {
	if slices.Contains(Names(), nameOrPath) {
		return read(descriptions, embedded(nameOrPath), embedded(nameOrPath))
	}
	info, err := os.Stat(nameOrPath)
	folder := err == nil && info.IsDir()
	if !folder && !strings.ContainsAny(nameOrPath, `/\.`) {
		return Description{}, fmt.Errorf("no handler is named %q%s, or the path of a description such as ./my-handler/handler.yaml",
			nameOrPath, strict.Among(nameOrPath, Names()))
	}
	if folder {
		nameOrPath = filepath.Join(nameOrPath, "handler.yaml")
	}
	return read(os.DirFS(filepath.Dir(nameOrPath)), filepath.Base(nameOrPath), nameOrPath)
}

func embedded(name string) string { return path.Join("descriptions", name, "handler.yaml") }

// read reads the description called name; shown is its path in errors.
func read(in fs.FS, name, shown string) (Description, error) {
	data, err := readFile(in, name, shown)
	if err != nil {
		return Description{}, fmt.Errorf("read the handler's description: %w", err)
	}
	if strict.KindOf(data) == strict.Scenario {
		return Description{}, fmt.Errorf("%s is a scenario, not a handler: spotdrill run %[1]s plays it", shown)
	}
	d := Description{File: shown, text: data}
	unread := strict.Decode(shown, data, &d)
	if unread != nil && d.Name == "" { // not even that could be read
		return Description{}, unread
	}
	d.Ready.Timeout = cmp.Or(d.Ready.Timeout, strict.Duration(DefaultReadyTimeout))
	if d.CommitPoint == "" && len(d.Manifests) > 0 && d.ReadsQueue() {
		d.CommitPoint = DefaultCommitPoint
	}
	if err := errors.Join(unread, d.validate(unread)); err != nil {
		return Description{}, err
	}
	folder := manifestFolder{files: in, dir: path.Dir(name), shown: filepath.Dir(shown)}
	allowed := namesOf(Settings{}.values())
	var once, perWorker error
	d.documents, once = folder.read(d, "manifests", d.Manifests, allowed)
	d.perWorker, perWorker = folder.read(d, "workers.manifests", d.Workers.Manifests, namesOf(Settings{}.valuesFor(Worker{})))
	errs := []error{once, perWorker, ownNames(d.perWorker)}
	if release, ok := kind.ReleaseNamed(d.Image.Recipe); ok {
		var err error
		d.definitions, err = d.definitionsOf(release)
		errs = append(errs, err)
	}
	d.configurations = make(map[string]configuration, len(d.Configurations))
	for _, name := range slices.Sorted(maps.Keys(d.Configurations)) {
		before, errBefore := folder.read(d, "configurations."+name+".before", d.Configurations[name].Before, allowed)
		after, errAfter := folder.read(d, "configurations."+name+".after", d.Configurations[name].After, allowed)
		d.configurations[name] = configuration{before, after}
		errs = append(errs, errBefore, errAfter)
	}
	return d, errors.Join(errs...)
}

// definitionsOf are the CustomResourceDefinitions that come with a release, but for those that the manifests have.
func (d Description) definitionsOf(release kind.Release) ([]document, error) {
	recipes, names, err := release.Definitions()
	if err != nil {
		return nil, fmt.Errorf("read the definitions of %s: %w", release, err)
	}
	var out []document
	for _, name := range names {
		text, err := readFile(recipes, name, name)
		if err != nil {
			return nil, fmt.Errorf("read the definitions of %s: %w", release, err)
		}
		documents, err := split(name, string(text), nil)
		if err != nil {
			return nil, err
		}
		for _, doc := range documents {
			if !slices.ContainsFunc(d.documents, doc.sameObject) {
				out = append(out, doc)
			}
		}
	}
	return out, nil
}

// mostFile is how much is read of a description, a manifest or a policy, in bytes.
const mostFile = 8 << 20

func readMost(folder fs.FS, name string) ([]byte, error) {
	f, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	return files.ReadAll(f, mostFile)
}

// readFile reads a file of a folder. Its error names the file by the path that the
// user gave, where fs.ReadFile knows only the path within the folder.
func readFile(folder fs.FS, name, shown string) ([]byte, error) {
	data, err := readMost(folder, name)
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = &fs.PathError{Op: failed.Op, Path: shown, Err: failed.Err}
	}
	return data, err
}

// ownNames requires that each worker's objects have names of their own.
func ownNames(documents []document) error {
	var errs []error
	for _, doc := range documents {
		obj, err := doc.decode(doc.text)
		if err != nil {
			continue // split has reported it
		}
		if !strings.Contains(obj.GetName(), "${NODE_NAME}") && !strings.Contains(obj.GetName(), "${INSTANCE_ID}") {
			errs = append(errs, fmt.Errorf("%s:%d: metadata.name %q needs ${NODE_NAME} or ${INSTANCE_ID}: there is one object for each worker", doc.file, doc.line, obj.GetName()))
		}
	}
	return errors.Join(errs...)
}

// manifestFolder is the folder of a description.
type manifestFolder struct {
	files      fs.FS
	dir, shown string
}

// read reads the manifests that a field lists.
func (m manifestFolder) read(d Description, field string, names, placeholders []string) ([]document, error) {
	var out []document
	var errs []error
	for i, name := range names {
		text, err := readFile(m.files, path.Join(m.dir, name), filepath.Join(m.shown, name))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: read manifest: %w", d.At(fmt.Sprintf("%s[%d]", field, i)), err))
			continue
		}
		documents, err := split(filepath.Join(m.shown, name), string(text), placeholders)
		out = append(out, documents...)
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}
