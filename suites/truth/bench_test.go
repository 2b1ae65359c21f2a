package main

import (
	"strings"
	"testing"
)

func TestExceededLimits(t *testing.T) {
	peers := []cost{{perQuery: 1000}}
	for name, c := range map[string]struct {
		fixed, fresh cost
		want         []string // what the error says; none for no error
	}{
		"all kept, to the bounds": {fixed: cost{perQuery: 700}, fresh: cost{perQuery: 1500}},
		"fixed ports cost more":   {fixed: cost{perQuery: 710}, fresh: cost{perQuery: 1500}, want: []string{"fixed ports, takes 0.71 of dnsperf's processor time, want at most 0.70"}},
		"fresh ports cost more":   {fixed: cost{perQuery: 700}, fresh: cost{perQuery: 1510}, want: []string{"a fresh port each, takes 1.51 of dnsperf's processor time, want at most 1.50"}},
		"one lost":                {fixed: cost{perQuery: 700, lost: 1}, fresh: cost{perQuery: 1500}, want: []string{"1 queries at 20000/s, fixed ports, were lost or not sent"}},
		"several":                 {fixed: cost{perQuery: 900}, fresh: cost{perQuery: 1500, lost: 2}, want: []string{"takes 0.90", "2 queries at 20000/s, a fresh port each"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := costs{peers: peers, fixed: c.fixed, fresh: c.fresh}.broken()
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
