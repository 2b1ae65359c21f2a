package engine

import "testing"

func TestMemoryOf(t *testing.T) {
	for meminfo, want := range map[string]uint64{
		"MemTotal:       24683896 kB\nMemFree:         1000000 kB\n": 24683896 << 10,
		"MemFree: 1 kB\n": 0,
		"":                0,
	} {
		if got := memoryOf(meminfo); got != want {
			t.Errorf("%q: %d, want %d", meminfo, got, want)
		}
	}
}

// A prerequisite that is missing describes how to provide it.
func TestWhatIsMissingHasAFix(t *testing.T) {
	t.Setenv("SPOTDRILL_CACHE", t.TempDir()) // Podman may need a configuration of ours
	_, found := Examine(t.Context())
	if len(found) < 3 {
		t.Errorf("found only %+v", found)
	}
	for _, f := range found {
		if f.What == "" || f.Detail == "" || f.State == Missing && f.Fix == "" && f.What != "container engine" {
			t.Errorf("%+v", f)
		}
	}
}
