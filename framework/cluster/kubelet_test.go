package cluster

import (
	"strings"
	"testing"
	"time"
)

// A login manager that grants less than the kubelet requests would end the pods before their time.
func TestTheLoginManagerMustGrantTheDelay(t *testing.T) {
	for printed, want := range map[string]string{
		"t 150000000\n":          "",
		"t 300000000\n":          "",
		"t 5000000\n":            "InhibitDelayMaxSec is 5s, less than the 2m30s that the kubelet requests",
		"":                       `cannot be read from ""`,
		"Failed to get property": "cannot be read from",
	} {
		if got := whyTooShort(printed, 150*time.Second); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", printed, got, want)
		}
	}
}
