package history

import (
	"sort"
	"time"
)

// Window is a closed interval in which queries of one stream were lost: from
// the intended send time of the first lost query to that of the first answered
// one after the last lost one. Behind a service with one dead backend of two,
// lost and answered queries alternate, so losses less than quiet apart belong
// to one window; Lost of Asked says how dense it was.
type Window struct {
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
	Lost  int           `json:"lost"`
	Asked int           `json:"asked"` // queries intended within the window, the closing answer included
	// Open is true where no answered query came after the last lost one: the
	// window is at least this long.
	Open bool `json:"open,omitempty"`
}

// Length is the window's duration. Its resolution is one query interval at
// either edge.
func (w Window) Length() time.Duration { return w.To - w.From }

// Quiet is the default gap that ends a window. It is far above a query interval
// at 500/s and far below the seconds that separate the phases of an outage
// (endpoint gone, pod exit, reconciliation of conntrack entries).
const Quiet = 500 * time.Millisecond

// Stream selects the queries of one target and mode, in order of their intended
// time, without those that were never sent.
func Stream(queries []Query, target string, mode Mode) []Query {
	var out []Query
	for _, q := range queries {
		if q.Target == target && q.Mode == mode && q.Outcome != Unsent {
			out = append(out, q)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Intended < out[j].Intended })
	return out
}

// Windows finds the windows of a stream as Stream returns it.
func Windows(stream []Query, quiet time.Duration) []Window {
	var windows []Window
	first, last := -1, -1 // indexes of the first and last lost query of the current window
	closeAt := func() {
		if first < 0 {
			return
		}
		w := Window{From: stream[first].Intended, To: stream[last].Intended, Open: last == len(stream)-1}
		end := last
		if !w.Open {
			end = last + 1
			w.To = stream[end].Intended
		}
		for _, q := range stream[first : end+1] {
			w.Asked++
			if q.Outcome.Lost() {
				w.Lost++
			}
		}
		windows = append(windows, w)
		first, last = -1, -1
	}
	for i, q := range stream {
		if !q.Outcome.Lost() {
			continue
		}
		// Without an answer in between the window cannot have ended.
		if first >= 0 && last < i-1 && q.Intended-stream[last].Intended > quiet {
			closeAt()
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	closeAt()
	return windows
}
