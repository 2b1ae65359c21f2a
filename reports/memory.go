package reports

import (
	"os"
	"runtime/debug"
)

// memoryLimit is how much memory this process takes, in bytes, before it collects garbage sooner than usual. Judging the
// record of a hundred probers stays below a GiB with it. Without it, the heap may become twice what lives, and more
// where the collector waits for a processor.
const memoryLimit = 768 << 20

// LimitMemory sets the limit of this process, unless GOMEMLIMIT sets one. More is taken if that much lives.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
