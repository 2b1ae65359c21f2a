package conntrack

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// statFile has the kernel's counts for the network namespace of the reader.
const statFile = "/proc/net/stat/nf_conntrack"

// insertFailed is how many packets the kernel has dropped since it started because it
// could not insert their entries: two packets need the same entry at the same moment
// (kubernetes#56903).
func insertFailed() (int, error) {
	text, err := os.ReadFile(statFile)
	if err != nil {
		return 0, fmt.Errorf("read the kernel's connection tracking counts: %w", err)
	}
	n, err := sumColumn(string(text), "insert_failed")
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", statFile, err)
	}
	return n, nil
}

// sumColumn adds up a column of hexadecimal numbers, one line for each processor.
func sumColumn(text, name string) (sum int, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	column := slices.Index(strings.Fields(lines[0]), name)
	if column < 0 {
		return 0, fmt.Errorf("it has no column %s", name)
	}
	for i, line := range lines[1:] {
		fields := strings.Fields(line)
		if column >= len(fields) {
			return 0, fmt.Errorf("line %d has %d columns", i+2, len(fields))
		}
		n, err := strconv.ParseUint(fields[column], 16, 32)
		if err != nil {
			return 0, fmt.Errorf("line %d: %w", i+2, err)
		}
		sum += int(n)
	}
	return sum, nil
}
