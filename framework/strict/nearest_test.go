package strict

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"PDB", "DNS", "SPOT", "QUEUE-HYGIENE", "karpenter", "nth", "nth-imds", "spot-interruption", "state-change"}
	for given, want := range map[string]string{
		"PBD": "PDB", "pbd": "PDB", "karpentr": "karpenter", "karpneter": "karpenter", "nth-imsd": "nth-imds", "spot-interuption": "spot-interruption",
		"state-chnage": "state-change", "QUEUE_HYGENE": "QUEUE-HYGIENE", "karp": "karpenter", "spots": "SPOT",
		"": "", "x": "", "zebra": "", "spotdrill": "", "xyz": "", "interruption": "", strings.Repeat("k", 1<<20): "",
	} {
		if got := Nearest(given, words); got != want {
			t.Errorf("%.20q: %q, want %q", given, got, want)
		}
	}
	if got, want := Among("DSN", words[:2]), `; did you mean "DNS"? allowed: PDB, DNS`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := Among("other", words[:2]), "; allowed: PDB, DNS"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
