package conntrack

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// line is one line of a record in JSON Lines: first the anchor, then flows with times
// relative to it, and at last the end.
type line struct {
	Anchor *history.Anchor `json:"anchor,omitempty"`
	End    *end            `json:"summary,omitempty"`
	*history.Flow
}

type end struct {
	Flows int `json:"flows"`
	// Overflows is how often events arrived faster than they were read.
	Overflows int `json:"overflows"`
	// InsertFailed is how many packets the kernel dropped because it could not insert an
	// entry.
	InsertFailed int `json:"insert_failed"`
	// Failures shows when.
	Failures []failure `json:"failures,omitempty"`
	// CPU is the processor time that recording took.
	CPU time.Duration `json:"cpu"`
}

// failure is a number of packets that the kernel dropped because it could not insert their
// entries, between two readings of its count.
type failure struct {
	From    time.Duration `json:"from"`
	To      time.Duration `json:"to"`
	Packets int           `json:"packets"`
}

func writeRecord(w io.Writer, anchor history.Anchor, all []history.Flow, last end) error {
	buf := bufio.NewWriter(w)
	enc := json.NewEncoder(buf)
	if err := enc.Encode(line{Anchor: &anchor}); err != nil {
		return err
	}
	for _, f := range all {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	if err := enc.Encode(line{End: &last}); err != nil {
		return err
	}
	return buf.Flush()
}

// Collect reads the flows of the prober on node from the record of GET /flows, with
// times of rec's clock, and records in rec that it did. A record without a summary, or
// with another number of flows than the summary shows, is an error.
func Collect(body io.Reader, rec *history.Recorder, node string) ([]history.Flow, error) {
	all, last, shift, bound, err := readRecord(body, rec.Clock())
	if err != nil {
		return nil, fmt.Errorf("collect the record of flows of %s: after %d: %w", node, len(all), err)
	}
	for i := range all {
		all[i].Node = node
		all[i].From += shift
		if all[i].To != 0 {
			all[i].To += shift
		}
	}
	for _, f := range last.Failures {
		rec.Record(history.NewInsertsFailed(node, history.At(f.To+shift), history.With(history.Numbers{
			history.InsertFailed: float64(f.Packets), history.Within: (f.To - f.From).Seconds(),
		})))
	}
	rec.Record(history.NewFlowsRecorded(node, history.With(history.Numbers{
		history.FlowCount: float64(last.Flows), history.Overflows: float64(last.Overflows), history.InsertFailed: float64(last.InsertFailed), history.Resolution: batch.Seconds(), history.ClockBound: bound.Seconds(),
		history.RecorderCPU: last.CPU.Seconds(),
	})))
	return all, nil
}

func readRecord(body io.Reader, clock *history.Clock) (all []history.Flow, last end, shift, bound time.Duration, err error) {
	dec := json.NewDecoder(body)
	var first line
	if err = dec.Decode(&first); err != nil {
		return all, last, shift, bound, err
	}
	if first.Anchor == nil {
		return all, last, shift, bound, errors.New("the first line is not the anchor")
	}
	shift, bound = clock.Rebase(*first.Anchor)
	for {
		var l line
		if err = dec.Decode(&l); err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("it ends without a summary: the recorder or the connection to it broke: %w", io.ErrUnexpectedEOF)
			}
			return all, last, shift, bound, err
		}
		switch {
		case l.End != nil && l.End.Flows != len(all):
			return all, last, shift, bound, fmt.Errorf("the recorder sent %d, but %d arrived", l.End.Flows, len(all))
		case l.End != nil:
			return all, *l.End, shift, bound, nil
		case l.Flow == nil || l.Port < 1 || l.Port >= 1<<16 || l.Backend == "":
			return all, last, shift, bound, errors.New("a line is not a flow")
		}
		all = append(all, *l.Flow)
	}
}
