package recording

import (
	"reflect"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Lines as CoreDNS 1.14 writes them and the kubelet returns them.
func TestWhatCoreDNSLogsWhenItTerminates(t *testing.T) {
	const at = "2026-11-21T23:30:18.123456789Z"
	for line, want := range map[string]struct {
		kind    history.Kind
		numbers history.Numbers
	}{
		at + " [INFO] SIGTERM: Shutting down servers then terminating":      {kind: history.PodSignalled},
		at + " [INFO] plugin/health: Going into lameduck mode for 5s":       {kind: history.PodLameduck, numbers: history.Numbers{history.LameduckTime: 5}},
		at + " [INFO] plugin/health: Going into lameduck mode for 1m30s":    {kind: history.PodLameduck, numbers: history.Numbers{history.LameduckTime: 90}},
		at + " [INFO] plugin/health: Going into lameduck mode for a while":  {},
		at + " [INFO] 10.244.1.5:4711 - 4 \"A IN SIGTERM. udp 25\" NOERROR": {},
		"[INFO] SIGTERM: Shutting down servers then terminating":            {},
		"": {},
	} {
		kind, when, numbers, ok := dnsEnding(line)
		if ok != (want.kind != "") || ok && (kind != want.kind || !reflect.DeepEqual(numbers, want.numbers) || when.Format(time.RFC3339Nano) != at) {
			t.Errorf("%q: %s at %s, %v, %t; want %s, %v", line, kind, when, numbers, ok, want.kind, want.numbers)
		}
	}
}
