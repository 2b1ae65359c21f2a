package conntrack

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// insertFailed is how many packets the kernel has dropped since it started because it could not insert
// their entries: two packets need the same entry at the same moment (kubernetes#56903). It counts them
// for each network namespace and processor.
func insertFailed() (sum int, err error) {
	var counts []procfs.ConntrackStatEntry
	proc, err := procfs.NewDefaultFS()
	if err == nil {
		counts, err = proc.ConntrackStat()
	}
	if err != nil {
		return 0, fmt.Errorf("read the kernel's connection tracking counts: %w", err)
	}
	for _, c := range counts {
		sum += int(c.InsertFailed)
	}
	return sum, nil
}
