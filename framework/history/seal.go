package history

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"time"
)

// MostClockStep is how far this machine's wall clock may be set during a run, against its monotonic one.
// The events have times of both: what API objects and other machines report is wall clock time.
const MostClockStep = time.Second

// ended is the last event of a complete history. It has the checksum of all before it, and of itself
// without the checksum; and by how much the wall clock was set.
func (r *Recorder) ended() Event {
	e := NewRunEnded(At(r.clock.Now()), With(Numbers{ClockStep: r.clock.step(time.Now()).Seconds()}))
	e.Seq = r.seq + 1
	e.reason.Text = checksum(r.sum, e)
	return e
}

// step is by how much the wall clock was set since the base.
func (c *Clock) step(now time.Time) time.Duration {
	return now.Round(0).Sub(c.anchor.Wall.Round(0)) - now.Sub(c.start)
}

// checksum is that of the lines so far, and of the event without its checksum.
func checksum(lines hash.Hash, last Event) string {
	last.reason.Text = ""
	line, err := json.Marshal(last)
	if err != nil {
		return ""
	}
	copied, err := lines.(hash.Cloner).Clone()
	if err != nil {
		return ""
	}
	copied.Write(append(line, '\n'))
	return hex.EncodeToString(copied.Sum(nil))
}

// unsealed is what the last event shows to be wrong, if anything; the lines before it have been summed
// up. Recordings of earlier versions have neither checksum nor step.
func unsealed(lines hash.Hash, last Event) string {
	if was := last.reasonOf(RunEnded); was != "" && was != checksum(lines, last) {
		return EventsFile + " was changed after the run: its checksum is another one"
	}
	if step := last.Numbers[ClockStep]; math.Abs(step) > MostClockStep.Seconds() {
		return fmt.Sprintf("the clock of this machine was set by %+.1fs during the run, more than %v: times of the record cannot be compared; drill again", step, MostClockStep)
	}
	return ""
}

// decodeEvents reads the lines below the first. Damage is what is wrong with the last event.
func decodeEvents(in *bufio.Reader, lines hash.Hash) (events []Event, damage string, err error) {
	for {
		line, end := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e Event
			if err := json.NewDecoder(bytes.NewReader(line)).Decode(&e); err != nil {
				return events, damage, err
			}
			if e.Kind == RunEnded {
				damage = unsealed(lines, e)
			}
			events = append(events, e)
		}
		lines.Write(line)
		if errors.Is(end, io.EOF) {
			return events, damage, nil
		}
		if end != nil {
			return events, damage, end
		}
	}
}
