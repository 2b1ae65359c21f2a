package cluster

import (
	"fmt"
	"strings"
	"testing"
)

// The reason that kubeadm gives must not be pushed out by its stack trace, nor by what it printed before.
func TestLastLines(t *testing.T) {
	const frames = "k8s.io/kubernetes/cmd/kubeadm/app.Run\n\tk8s.io/kubernetes@v1.37.2/cmd/kubeadm/app/kubeadm.go:48\nruntime.goexit\n\truntime/asm_amd64.s:1771\n"
	var before strings.Builder
	for n := range 40 {
		fmt.Fprintf(&before, "I1128 line %d\n", n)
	}
	trace := strings.Repeat(frames, 10)
	for name, c := range map[string]struct{ printed, first, last string }{
		"a reason before a trace":       {before.String() + "the API server did not start\n" + trace, "I1128 line 26", "the API server did not start"},
		"two reasons, each with one":    {before.String() + "timed out\n" + trace + "error execution phase wait-control-plane\n" + trace, "I1128 line 27", "error execution phase wait-control-plane"},
		"no trace, an indented line":    {"one\n\ttwo: main.go:3 is not a frame\n", "one", "\ttwo: main.go:3 is not a frame"},
		"a trace and nothing else":      {trace, "", ""},
		"a trace whose end was cut off": {"reason\n" + trace + "main.main", "reason", "main.main"},
	} {
		lines := strings.Split(lastLines(c.printed), "\n")
		if lines[0] != c.first || lines[len(lines)-1] != c.last || len(lines) > printedLines {
			t.Errorf("%s: %q", name, lines)
		}
	}
}
