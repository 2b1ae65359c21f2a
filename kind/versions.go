package kind

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Versions are the releases that a system runs. Each is a release such as v1.34.4, or a minor such as
// v1.34, for its newest release that can be had; empty for the default.
type Versions struct {
	// Kubernetes is the default if it is empty: the newest minor that is pinned.
	Kubernetes string
	// CoreDNS is that of the cluster; the newest that is pinned if it is empty.
	CoreDNS string
	// Karpenter and NTH are handlers; the version of the handler's description if they are empty.
	Karpenter, NTH string
}

// Of is the version of a program; empty for the default, and for a program that nobody chooses.
func (v Versions) Of(p Program) string {
	if of := v.of(p); of != nil {
		return *of
	}
	return ""
}

func (v *Versions) of(p Program) *string {
	switch p {
	case Kubernetes:
		return &v.Kubernetes
	case CoreDNS:
		return &v.CoreDNS
	case Karpenter:
		return &v.Karpenter
	case NTH:
		return &v.NTH
	}
	return nil
}

// Set changes the version of a program. It panics if nobody chooses that program's version.
func (v *Versions) Set(p Program, version string) { *v.of(p) = version }

// Chosen lists the programs whose versions can be chosen, in the order in which they are shown.
func Chosen() []Program { return []Program{Kubernetes, CoreDNS, Karpenter, NTH} }

// Flags are the flags that choose these versions, such as "--kubernetes v1.34"; empty for the defaults.
func (v Versions) Flags() string {
	var flags []string
	for _, p := range Chosen() {
		if version := v.Of(p); version != "" {
			flags = append(flags, "--"+string(p)+" "+version)
		}
	}
	return strings.Join(flags, " ")
}

// Cluster are those of the cluster alone, without handlers.
func (v Versions) Cluster() Versions { return Versions{Kubernetes: v.Kubernetes, CoreDNS: v.CoreDNS} }

// ErrUnknownVersion reports a version that can neither be pulled nor built. The error lists those that can.
var ErrUnknownVersion = errors.New("version not known")

var versionPattern = regexp.MustCompile(`^v?(0|[1-9]\d*)\.(0|[1-9]\d*)(\.(0|[1-9]\d*))?$`)

// Complete writes the versions in their full form, such as v1.34 for 1.34; a minor of anything but Kubernetes
// becomes its newest release. Which release of a minor of Kubernetes is run depends on whether its image is
// pulled or built. Errors: ErrUnknownVersion, of all versions that are wrong.
func (o ImageOptions) Complete(v Versions) (Versions, error) {
	var errs []error
	for _, p := range Chosen() {
		given := v.Of(p)
		if given == "" {
			continue
		}
		full, err := o.complete(p, given)
		v.Set(p, full)
		errs = append(errs, err)
	}
	return v, errors.Join(errs...)
}

func (o ImageOptions) complete(p Program, given string) (string, error) {
	version := "v" + strings.TrimPrefix(given, "v")
	known, err := o.known(p)
	if err != nil {
		return "", err
	}
	if !versionPattern.MatchString(given) {
		return "", fmt.Errorf("%w: --%s is %q; want a release or its minor; can be had: %s", ErrUnknownVersion, p, given, had(known))
	}
	r, found := newest(known, version, func(Release) bool { return true })
	switch {
	case !found:
		return "", fmt.Errorf("%w: --%s is %q; can be had: %s", ErrUnknownVersion, p, given, had(known))
	case p == Kubernetes:
		return version, nil
	}
	return r.Version, nil
}

// matches reports whether a release is the version, or one of that minor.
func (r Release) matches(version string) bool {
	return r.Version == version || strings.HasPrefix(r.Version, version+".")
}

// had is a list of releases with how each can be had.
func had(known []Release) string {
	var text []string
	for _, r := range known {
		how := "pulled or built"
		switch {
		case r.Public() == "":
			how = "built"
		case !r.buildable:
			how = "pulled"
		}
		text = append(text, fmt.Sprintf("%s (%s)", r.Version, how))
	}
	return strings.Join(text, ", ")
}

// Known lists the versions of a program that can be pulled or built, the newest first.
func (o ImageOptions) Known(p Program) ([]string, error) {
	known, err := o.known(p)
	var versions []string
	for _, r := range known {
		versions = append(versions, r.Version)
	}
	return versions, err
}

// known are the releases of a program that can be pulled or built, the newest first.
func (o ImageOptions) known(p Program) ([]Release, error) {
	recipes, err := o.recipes()
	if err != nil {
		return nil, err
	}
	folders, err := fs.Glob(recipes, path.Join("releases", string(p)+"-v*"))
	if err != nil {
		return nil, fmt.Errorf("list the releases of %s: %w", p, err)
	}
	var known []Release
	for _, folder := range folders {
		r, ok := ReleaseNamed(path.Base(folder))
		if !ok || r.Program != p {
			continue
		}
		_, missing := fs.Stat(recipes, path.Join(folder, storedModule))
		r.buildable = missing == nil
		known = append(known, r)
	}
	if p == Kubernetes {
		for version := range publishedNodes() {
			if !slices.ContainsFunc(known, func(r Release) bool { return r.Version == version }) {
				known = append(known, Release{Program: p, Version: version})
			}
		}
	}
	slices.SortFunc(known, func(a, b Release) int { return semver.Compare(b.Version, a.Version) })
	return known, nil
}

// newest is the newest of the releases that match a version and can be had in some way; false if there is none.
// They are in the order of known.
func newest(known []Release, version string, can func(Release) bool) (Release, bool) {
	i := slices.IndexFunc(known, func(r Release) bool { return (version == "" || r.matches(version)) && can(r) })
	if i < 0 {
		return Release{}, false
	}
	return known[i], true
}

// publishedNodes are the digests of the node images that kind publishes, by the version of Kubernetes. Each is the
// default of a release of kind (pkg/apis/config/defaults of sigs.k8s.io/kind v0.29.0 to v0.33.0).
func publishedNodes() map[string]string {
	return map[string]string{
		"v1.33.1": "sha256:050072256b9a903bd914c0b2866828150cb229cea0efe5892e2b644d5dd3b34f",
		"v1.34.0": "sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a",
		"v1.35.0": "sha256:452d707d4862f52530247495d180205e029056831160e22870e37e3f6c1ac31f",
		"v1.36.1": "sha256:3489c7674813ba5d8b1a9977baea8a6e553784dab7b84759d1014dbd78f7ebd5",
		"v1.37.0": "sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
	}
}
