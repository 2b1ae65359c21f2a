package story

import (
	"fmt"
	"slices"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// missedReadings is how many readings of the memory in a row may be missing.
const missedReadings = 3

// Growth is how the memory of a pod changed in the course of a flood.
type Growth struct {
	Of          string
	Early, Late float64         // bytes
	Readings    []history.Event // the first and the last
}

// MemoryGrowth compares the readings of a pod's memory; why describes what is missing of them.
func MemoryGrowth(st *Story, p Pod, from, to time.Duration) (g Growth, why string) {
	readings := st.All(func(e history.Event) bool {
		return e.Kind == history.MemoryUsed && e.Pod == p.Name() && e.At >= from && e.At <= to
	})
	if len(readings) == 0 {
		if e, ok := st.First(func(e history.Event) bool { return e.Kind == history.WaitsRecorded && e.Note != "" }); ok {
			return g, "its memory is not on record: " + e.Note
		}
		return g, "its memory is not on record"
	}
	last := from
	for _, at := range append(times(readings), to) {
		if at-last > (missedReadings+1)*history.MemoryInterval {
			return g, fmt.Sprintf("its memory is not on record from +%s to +%s", history.Seconds(last), history.Seconds(at))
		}
		last = at
	}
	tenth := (to - from) / 10
	return Growth{
		Of: p.Name(), Early: medianBytes(readings, from+tenth, from+3*tenth), Late: medianBytes(readings, to-2*tenth, to),
		Readings: []history.Event{readings[0], readings[len(readings)-1]},
	}, ""
}

func times(events []history.Event) []time.Duration {
	var out []time.Duration
	for _, e := range events {
		out = append(out, e.At)
	}
	return out
}

func medianBytes(readings []history.Event, from, to time.Duration) float64 {
	var bytes []float64
	for _, e := range readings {
		if e.At >= from && e.At <= to {
			bytes = append(bytes, e.Numbers[history.Bytes])
		}
	}
	if len(bytes) == 0 {
		return 0
	}
	slices.Sort(bytes)
	return bytes[len(bytes)/2]
}

// Bytes is how much it grew.
func (g Growth) Bytes() float64 { return g.Late - g.Early }

func (g Growth) String() string {
	return fmt.Sprintf("%s grew from %.1f to %.1f MiB", g.Of, g.Early/(1<<20), g.Late/(1<<20))
}
