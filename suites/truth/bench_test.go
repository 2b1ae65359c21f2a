package main

import (
	"strings"
	"testing"
)

func TestExceededLimits(t *testing.T) {
	peers := []cost{{perQuery: 1000, memory: 9 << 20}}
	for name, c := range map[string]struct {
		fixed, fresh cost
		memory       int64    // of the prober alone, from fresh ports; 0 for the most that is allowed
		want         []string // the text of the error; none for no error
	}{
		"more memory":             {fixed: cost{perQuery: 700}, fresh: cost{perQuery: 1200}, memory: 28 << 20, want: []string{"the prober alone at 20000/s, a fresh port each, takes 3.11 of dnsperf's memory, want at most 3"}},
		"all kept, to the bounds": {fixed: cost{perQuery: 700}, fresh: cost{perQuery: 1200}},
		"fixed ports cost more":   {fixed: cost{perQuery: 710}, fresh: cost{perQuery: 1200}, want: []string{"fixed ports, takes 0.71 of dnsperf's processor time, want at most 0.70"}},
		"fresh ports cost more":   {fixed: cost{perQuery: 700}, fresh: cost{perQuery: 1210}, want: []string{"a fresh port each, takes 1.21 of dnsperf's processor time, want at most 1.20"}},
		"one lost":                {fixed: cost{perQuery: 700, lost: 1}, fresh: cost{perQuery: 1200}, want: []string{"1 queries at 20000/s, fixed ports, were lost or not sent"}},
		"several":                 {fixed: cost{perQuery: 800}, fresh: cost{perQuery: 1200, lost: 2}, want: []string{"takes 0.80", "2 queries at 20000/s, a fresh port each"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := costs{peers: peers, fixed: c.fixed, fresh: c.fresh}
			all.alone.fixed.memory, all.alone.fresh.memory = 27<<20, 27<<20
			if c.memory > 0 {
				all.alone.fresh.memory = c.memory
			}
			err := all.broken()
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
		})
	}
}
