package scenarios

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

//go:embed catalogue
var catalogue embed.FS

// Loader reads scenarios, with checks of these kinds.
type Loader struct {
	Kinds []CheckKind
	// Platform has the values of what a scenario's file does not set; nil: they are kubeadm's. A scenario that is read
	// with a platform has all of them in its text.
	Platform *Platform
}

// builtIns are the files of the built-in scenarios. Each has the name of its scenario.
func builtIns() []string {
	found, _ := fs.Glob(catalogue, "catalogue/*/*.yaml") // the pattern is valid, and an embedded folder can always be read
	return found
}

func nameOf(file string) string { return strings.TrimSuffix(path.Base(file), ".yaml") }

// Names are those of all built-in scenarios.
func Names() []string {
	var names []string
	for _, file := range builtIns() {
		names = append(names, nameOf(file))
	}
	return names
}

// InCatalogue reports whether there is a built-in scenario of that name.
func InCatalogue(name string) bool { return slices.Contains(Names(), name) }

// Catalogue loads every built-in scenario, sorted by profile and name. The error reports
// all invalid files.
func (l Loader) Catalogue() ([]Scenario, error) {
	var out []Scenario
	var errs []error
	for _, file := range builtIns() {
		s, err := l.builtIn(file)
		out, errs = append(out, s), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("load the catalogue: %w", err)
	}
	slices.SortStableFunc(out, func(a, b Scenario) int { return inOrder(a.Profile, b.Profile, a.Name, b.Name) })
	return out, nil
}

// inOrder compares two scenarios by their place in a run.
func inOrder(profile, otherProfile, name, otherName string) int {
	return cmp.Or(slices.Index(Profiles(), profile)-slices.Index(Profiles(), otherProfile), strings.Compare(name, otherName))
}

// InSet are the names of the built-in scenarios of a set, in the order of Catalogue. It reads only the lines with
// their profiles and sets, and that queries are measured or a fleet is drained: loading all scenarios takes a hundred times as long. An unknown set is an error.
func InSet(set Set) ([]string, error) {
	if err := set.known(); err != nil {
		return nil, err
	}
	named := set
	if set == Handler {
		named = Full
	}
	type head struct{ profile, name string }
	var in []head
	for _, file := range builtIns() {
		text, _ := catalogue.ReadFile(file) // an embedded file can always be read
		h := head{name: nameOf(file)}
		found, quiet := false, false
		for line := range strings.Lines(string(text)) {
			if profile, ok := strings.CutPrefix(line, "profile: "); ok {
				h.profile = strings.TrimSpace(profile)
			}
			if sets, ok := strings.CutPrefix(line, "sets: ["); ok {
				found = slices.Contains(strings.FieldsFunc(sets, func(r rune) bool { return strings.ContainsRune(", ]\n", r) }), string(named))
			}
			quiet = quiet || strings.HasPrefix(line, "probe:") || strings.HasPrefix(line, "fleet:")
		}
		if found && (set != Handler || !quiet) {
			in = append(in, h)
		}
	}
	slices.SortFunc(in, func(a, b head) int { return inOrder(a.profile, b.profile, a.name, b.name) })
	names := make([]string, len(in))
	for i, h := range in {
		names[i] = h.name
	}
	return names, nil
}

func (l Loader) builtIn(file string) (Scenario, error) {
	data, err := catalogue.ReadFile(file)
	if err != nil {
		return Scenario{}, err
	}
	return l.parse(file, data)
}

// CatalogueDigest identifies the texts of all built-in scenarios and platforms. Two builds with the same one play and
// require the same.
func CatalogueDigest() string {
	sum := sha256.New()
	for _, in := range []struct {
		embed.FS
		files []string
	}{{catalogue, builtIns()}, {platforms, platformFiles()}} {
		for _, file := range in.files {
			text, _ := in.ReadFile(file) // an embedded file can always be read
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
		}
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil))
}

func (s Set) known() error {
	if slices.Contains(SetsToPlay(), s) {
		return nil
	}
	return fmt.Errorf("unknown set %q%s", s, strict.Among(string(s), history.Words(SetsToPlay())))
}

// Select returns the scenarios of a set or, if names are given, those scenarios. A name
// that ends in .yaml is a file of the user. An unknown name is an error that lists similar
// ones.
func (l Loader) Select(set Set, names []string) ([]Scenario, error) {
	err := set.known()
	if len(names) == 0 {
		names, err = InSet(set)
	}
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, file := range builtIns() {
		files[nameOf(file)] = file
	}
	var out []Scenario
	for _, name := range names {
		load := l.LoadFile
		if file, ok := files[name]; ok {
			name, load = file, l.builtIn
		} else if IsLive(name) {
			return nil, fmt.Errorf("%q is a drill of your own cluster: spotdrill live %s --context CONTEXT", name, name)
		} else if !strings.HasSuffix(name, ".yaml") {
			return nil, fmt.Errorf("unknown scenario %q%s; spotdrill list shows all, and a path that ends in .yaml names a file of your own", name, near(name))
		}
		s, err := load(name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// near is a hint at the scenarios that a name may mean.
func near(name string) string {
	if one := strict.Nearest(name, Names()); one != "" {
		return fmt.Sprintf("; did you mean %q? similar: %s", one, strings.Join(similar(name), ", "))
	}
	return "; similar: " + strings.Join(similar(name), ", ")
}

// similar are the names of the five scenarios that share most runs of three letters with a name.
func similar(name string) []string {
	shared := func(other string) (n int) {
		for i := range len(name) - 2 {
			if strings.Contains(other, name[i:i+3]) {
				n++
			}
		}
		return n
	}
	sorted := slices.SortedStableFunc(slices.Values(Names()), func(a, b string) int { return shared(b) - shared(a) })
	return sorted[:min(5, len(sorted))]
}

// mostScenario is the largest file with a scenario or a sweep that is read, in bytes.
const mostScenario = 1 << 20

// LoadFile reads and validates one scenario file.
func (l Loader) LoadFile(file string) (Scenario, error) {
	data, err := files.ReadFile(file, mostScenario)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	if strict.KindOf(data) == strict.HandlerUnderTest {
		return Scenario{}, fmt.Errorf("%s is a handler, not a scenario: spotdrill run --handler %[1]s drills it", file)
	}
	return l.Parse(filepath.ToSlash(file), data)
}

// Parse reads and validates one scenario. Errors name the file, the line and what is
// allowed.
func (l Loader) Parse(file string, data []byte) (Scenario, error) {
	s, err := l.parse(file, data)
	if err != nil {
		return Scenario{}, cmp.Or(l.oldSpelling(file, data), err)
	}
	return s, nil
}

func (l Loader) parse(file string, data []byte) (Scenario, error) {
	s, err := l.parseAlone(file, data)
	if err != nil || l.Platform == nil || s.Observe != nil {
		return s, err
	}
	return l.complete(file, data, s)
}

// parseAlone reads a scenario without a platform.
func (l Loader) parseAlone(file string, data []byte) (Scenario, error) {
	s := Scenario{CoreDNS: coredns.Defaults()}
	err := strict.Decode(file, data, &s)
	if s.Observe != nil { // the CoreDNS of another cluster is as it is
		s = Scenario{}
		err = strict.Decode(file, data, &s)
	}
	unread := err
	if unread != nil && s.Name == "" { // not even that could be read
		return Scenario{}, unread
	}
	s.File, s.Text = file, data
	if s.Handler == "" {
		s.Handler = HandlerUnderTest
	}
	if s.CoreDNS.Corefile != "" {
		_, _, set := strict.Find(data, "coredns.lameduck")
		if own := coredns.Read(coredns.Source{Text: s.CoreDNS.Corefile}); len(own.Health) > 0 && !set {
			s.CoreDNS.Lameduck, s.CoreDNS.LameduckUnknown = strict.Duration(own.Lameduck), own.LameduckUnknown != ""
		}
	}
	if s.Probe != nil {
		*s.Probe = s.Probe.withDefaults()
	}
	var p problems
	unread = errors.Join(unread, s.decodeChecks(l.Kinds, &p))
	p = append(p, s.validate(nameOf(file))...)
	if unread != nil {
		p = p.besides(unread, data)
	}
	if err := errors.Join(unread, p.in(file, data)); err != nil {
		return Scenario{}, err
	}
	return s, nil
}
