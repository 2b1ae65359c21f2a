package story

import (
	"fmt"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Stolen is how much of this machine's processors its host gave to others from a time to another, as a share of all of it, and
// in words; "" if nothing of that is on record.
func (st *Story) Stolen(from, to time.Duration) (share float64, words string) {
	var stolen, within, of float64
	for _, e := range st.AllOf(history.ProcessorStolen) {
		if e.At < from || e.At > to {
			continue
		}
		stolen += e.Numbers[history.Stolen]
		within += e.Numbers[history.Within]
		of += e.Numbers[history.Within] * e.Numbers[history.Cores]
	}
	if of == 0 {
		return 0, ""
	}
	words = fmt.Sprintf("for %.0f s, the host of this machine gave %.0f%% of its processors to others (steal)", within, 100*stolen/of)
	return stolen / of * within / (to - from).Seconds(), words
}
