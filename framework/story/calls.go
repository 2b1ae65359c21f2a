package story

import (
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Busiest is the most calls within a time of that length, and their events. The calls are in
// the order of at. What was counted in a second that only partly belongs to the time is left
// out.
func Busiest(calls []history.Event, over time.Duration, at func(history.Event) time.Duration) (most float64, events []history.Event) {
	first := 0
	for last, e := range calls {
		begin := at(e) - over
		for at(calls[first]) <= begin {
			first++
		}
		n := 0.0
		for _, c := range calls[first : last+1] {
			if c.Kind != history.APIFolded || c.At-c.Numbers.Duration(history.Within) >= begin {
				n += weight(c)
			}
		}
		if n > most {
			most, events = n, calls[first:last+1]
		}
	}
	return most, events
}

// Recorded is when the event was recorded: with a call, when it was answered.
func Recorded(e history.Event) time.Duration { return e.At }

// weight is how many calls the event stands for.
func weight(e history.Event) float64 {
	if e.Kind == history.APIFolded {
		return e.Numbers[history.Calls]
	}
	return 1
}

// MostCommon is the verb and resource of most of the calls, as one of them.
func MostCommon(calls []history.Event) (one history.Event, n float64) {
	count := map[string]float64{}
	for _, e := range calls {
		count[e.Action+e.Resource] += weight(e)
		if count[e.Action+e.Resource] > n {
			one, n = e, count[e.Action+e.Resource]
		}
	}
	return one, n
}
