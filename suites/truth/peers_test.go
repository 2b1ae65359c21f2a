package main

import (
	"maps"
	"regexp"
	"testing"
)

func TestAPeersSummaryIsReadWholeOrNotAtAll(t *testing.T) {
	for name, c := range map[string]struct {
		summary string
		lines   map[string]*regexp.Regexp
		want    map[string]float64 // nil for an error
	}{
		"dnsperf": {
			"  Queries sent:         500\n  Queries lost:         3 (0.60%)\n  Response codes:       NOERROR 490 (98.59%), SERVFAIL 7 (1.41%)\n  Queries per second:   99.4\n",
			dnsperfLines,
			map[string]float64{"sent": 500, "lost": 3, "rate": 99.4, failed: 7},
		},
		"flamethrower, nothing failed": {
			"total sent  : 1980\ntotal rcvd  : 1979\nresponses   :\n  NOERROR: 1979\n",
			flamethrowerLines,
			map[string]float64{"sent": 1980, "received": 1979},
		},
		"one that does not describe what was lost": {"  Queries sent:         500\n  Queries per second:   99.4\n", dnsperfLines, nil},
		"none": {"", flamethrowerLines, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := numbers(c.summary, c.lines)
			if !maps.Equal(got, c.want) || (err != nil) != (c.want == nil) {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
		})
	}
}
