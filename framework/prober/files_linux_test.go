package prober

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestTooFewOpenFilesAreToldBeforehand(t *testing.T) {
	plan := Plan{Streams: []QueryStream{freshStream(closedPort(t), MaxRate)}, Timeout: MaxTimeout, For: time.Second}
	for range 1000 { // more than any kernel allows (fs.nr_open)
		plan.Streams = append(plan.Streams, plan.Streams[0])
	}
	err := checkOpenFiles(plan)
	if err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("got %v, want an error that describes what to do", err)
	}
}

// fileTable is how many files the kernel's table of this process has room for.
func fileTable(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`FDSize:\s*(\d+)`).FindSubmatch(status)
	if found == nil {
		t.Fatal("no FDSize in /proc/self/status")
	}
	size, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// Growing it when an outage has the sockets pile up would stall the prober just then.
func TestTheFileTableHasRoomForAnOutageFromTheStart(t *testing.T) {
	s := freshStream(closedPort(t), 1000)
	s.Rate = 2 * fileTable(t)
	plan := Plan{Streams: []QueryStream{s}, Timeout: time.Second, For: time.Millisecond}
	if need := int(openFiles(plan)); fileTable(t) >= need {
		t.Fatalf("it has room for %d already", need)
	}
	if _, err := Run(context.Background(), plan, history.NewClock(), func(history.Query) {}); err != nil {
		t.Fatal(err)
	}
	if got, need := fileTable(t), int(openFiles(plan)); got < need {
		t.Errorf("it has room for %d files after a run that may need %d", got, need)
	}
}
