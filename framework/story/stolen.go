package story

import (
	"fmt"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Stolen is how much of this machine's processors its host gave to others while the drill was recorded, in words; "" if it was
// little or is not on record.
func (st *Story) Stolen() string {
	var stolen, of, seconds float64
	for _, e := range st.AllOf(history.ProcessorStolen) {
		stolen += e.Numbers[history.Stolen]
		seconds += e.Numbers[history.Within]
		of += e.Numbers[history.Within] * e.Numbers[history.Cores]
	}
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("for %.0f s, the host of this machine gave %.0f%% of its processors to others (steal)", seconds, 100*stolen/of)
}
