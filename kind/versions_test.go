package kind

import (
	"errors"
	"strings"
	"testing"
)

// A minor is its newest release; of Kubernetes it stays a minor, since it depends on how the image is had.
func TestCompleteVersions(t *testing.T) {
	opts := ImageOptions{Source: ".."}
	for given, want := range map[Versions]Versions{
		{}:                                       {},
		{Kubernetes: "1.34"}:                     {Kubernetes: "v1.34"},
		{Kubernetes: "v1.34"}:                    {Kubernetes: "v1.34"},
		{Kubernetes: "1.34.4"}:                   {Kubernetes: "v1.34.4"},
		{Kubernetes: "v1.34.0", CoreDNS: "1.12"}: {Kubernetes: "v1.34.0", CoreDNS: "v1.12.4"},
		{CoreDNS: "v1.13"}:                       {CoreDNS: "v1.13.2"},
		{Karpenter: "1.14", NTH: "v1.25"}:        {Karpenter: "v1.14.1", NTH: "v1.25.6"},
	} {
		got, err := opts.Complete(given)
		if err != nil || got != want {
			t.Errorf("%+v: %+v, %v, want %+v", given, got, err, want)
		}
		if again, err := opts.Complete(got); err != nil || again != got {
			t.Errorf("%+v is not complete: %+v, %v", got, again, err)
		}
	}
}

// The error of a version that is not known shows what can be had, and how.
func TestUnknownVersions(t *testing.T) {
	for given, want := range map[Versions][]string{
		{Kubernetes: "v1.32"}:                              {`--kubernetes is "v1.32"; can be had: v1.37.2 (built), v1.37.0 (pulled), v1.36.3 (built), v1.36.1 (pulled), v1.35.4 (built)`},
		{Kubernetes: "1.3"}:                                {`--kubernetes is "1.3"; can be had`},
		{Kubernetes: "v1.34.9"}:                            {`--kubernetes is "v1.34.9"; can be had`},
		{Kubernetes: "latest"}:                             {`--kubernetes is "latest"; want a release or its minor; can be had: v1.37.`},
		{Kubernetes: "v1"}:                                 {`want a release`},
		{Kubernetes: "v1.34.4-rc.1"}:                       {`want a release`},
		{Kubernetes: "v1.034"}:                             {`want a release`},
		{Kubernetes: " v1.34"}:                             {`want a release`},
		{CoreDNS: "v1.14.6.1"}:                             {`want a release`},
		{CoreDNS: "v1.13.9"}:                               {`--coredns is "v1.13.9"; can be had: v1.15.0 (pulled or built), v1.14.7 (pulled or built)`},
		{Karpenter: "v0.37"}:                               {`--karpenter is "v0.37"; can be had: v1.15.2 (pulled), v1.15.0 (pulled or built)`},
		{NTH: "v1.99.0", CoreDNS: "9.9", Karpenter: "2.0"}: {"--nth is", "--coredns is", "--karpenter is"},
	} {
		_, err := ImageOptions{Source: ".."}.Complete(given)
		if !errors.Is(err, ErrUnknownVersion) {
			t.Errorf("%+v: %v", given, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: %q is not in %v", given, part, err)
			}
		}
	}
}

func TestVersionsAsFlags(t *testing.T) {
	v := Versions{Kubernetes: "v1.34", CoreDNS: "v1.13.2", NTH: "v1.25.6"}
	if got := v.Flags(); got != "--kubernetes v1.34 --coredns v1.13.2 --nth v1.25.6" {
		t.Errorf("got %q", got)
	}
	if got := v.Cluster().Flags(); got != "--kubernetes v1.34 --coredns v1.13.2" {
		t.Errorf("of the cluster: %q", got)
	}
	if got := (Versions{}).Flags(); got != "" {
		t.Errorf("of the defaults: %q", got)
	}
}

// The image of a minor is the newest that is pulled, or else the newest that is built; that of a release is only that.
func TestNodeImages(t *testing.T) {
	for version, want := range map[string]struct{ pulled, built string }{
		"": {"v1.37.0", "v1.37.2"}, "v1.37": {"v1.37.0", "v1.37.2"}, "v1.33": {"v1.33.1", "v1.33.13"},
		"v1.37.0": {"v1.37.0", ""}, "v1.36.3": {"", "v1.36.3"},
	} {
		img, pulled, built, err := ImageOptions{Source: ".."}.nodeImage(version)
		if err != nil || pulled.Version != want.pulled || built.Version != want.built {
			t.Errorf("%q: pulled %s, built %s, %v; want %+v", version, pulled.Version, built.Version, err, want)
		}
		if (img.public == "") != (want.pulled == "") || (len(img.sources) == 0) != (want.built == "") {
			t.Errorf("%q: %+v", version, img)
		}
		if want.pulled == "" && !strings.Contains(img.notPublic, "no public node image of Kubernetes "+version+" is known by its digest") {
			t.Errorf("%q: not public because %q", version, img.notPublic)
		}
		if want.built == "" && !strings.Contains(img.note, "Kubernetes "+version+" can only be pulled; can be had: v1.37.2 (built)") {
			t.Errorf("%q: note %q", version, img.note)
		}
	}
}

// A release whose modules are not pinned can only be pulled.
func TestAReleaseWithoutModulesIsNotBuilt(t *testing.T) {
	opts := ImageOptions{Source: ".."}
	if _, err := opts.reference((Release{Program: Karpenter, Version: "v1.15.2"}).image()); err == nil || !strings.Contains(err.Error(), "kind/images/releases/karpenter-v1.15.2 has no go.mod.txt, which .ci/pin karpenter v1.15.2 writes") {
		t.Errorf("got %v", err)
	}
	if ref, err := opts.reference((Release{Program: Karpenter, Version: "v1.15.0"}).image()); err != nil || ref == "" {
		t.Errorf("%s, %v", ref, err)
	}
}
