package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/files"
)

// FlowsFile is the name of the file that holds the flows in a history's folder.
const FlowsFile = "flows.jsonl.gz"

// Flow is the life of a connection tracking entry between a prober and a
// service, on the prober's node: every query that left from Port in this time
// went to Backend, whatever kube-proxy's rules were by then. Times are
// nanoseconds since the history's base and may be as much too late as the event
// flows.recorded reports.
type Flow struct {
	Node    string        `json:"n,omitempty"` // where the prober was
	Target  string        `json:"t,omitempty"` // which service; empty for Service
	Port    int           `json:"p"`           // the prober's source port
	Backend string        `json:"b"`           // IP of the pod that the rules chose for the first query
	From    time.Duration `json:"at"`
	To      time.Duration `json:"end,omitempty"` // 0 if it was still there when the recording ended
	// TCP reports whether it is one of TCP; histories of earlier versions do not have it.
	TCP bool `json:"tcp,omitempty"`
	// Removed reports whether a process removed the entry, as kube-proxy does with
	// those of endpoints that are gone; else it expired.
	Removed bool `json:"x,omitempty"`
	// Replied reports whether any answer came back to the prober's node.
	Replied bool `json:"r,omitempty"`
}

// Flows writes the flows of the whole drill, at its end: writing them as they
// come would cost time while something is measured.
func (r *Recorder) Flows(flows []Flow) error {
	f, err := os.Create(filepath.Join(filepath.Dir(r.events.Name()), FlowsFile))
	if err != nil {
		return fmt.Errorf("create the record of flows: %w", err)
	}
	gz := gzip.NewWriter(f)
	buf := bufio.NewWriter(gz)
	enc := json.NewEncoder(buf)
	for _, flow := range flows {
		if err = enc.Encode(flow); err != nil {
			break
		}
	}
	if err := errors.Join(err, buf.Flush(), gz.Close(), f.Close()); err != nil {
		return fmt.Errorf("write the record of flows: %w", err)
	}
	return nil
}

// loadFlows reads the flows of a history. One whose events do not report flows
// has none.
func loadFlows(dir string, events []Event) ([]Flow, error) {
	f, err := files.Open(dir, FlowsFile)
	if errors.Is(err, fs.ErrNotExist) && !recordedFlows(events) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	var flows []Flow
	for dec := json.NewDecoder(files.Limit(gz, mostFlows)); ; {
		var f Flow
		if err := dec.Decode(&f); err != nil {
			if errors.Is(err, io.EOF) {
				return flows, nil
			}
			return flows, err
		}
		flows = append(flows, f)
	}
}

func recordedFlows(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool { return e.Kind == FlowsRecorded })
}
