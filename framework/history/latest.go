package history

import "time"

// Latest is the newest run of lost queries while they come in, in any order that is
// nearly that of their intended times: what a progress line can show before the
// windows are known. Verdicts rest on Windows.
type Latest struct {
	From  time.Duration // intended time of its first lost query
	Until time.Duration // of its last one
	Lost  int           // 0 if nothing was lost yet
}

// Add takes a query; one that was not lost changes nothing.
func (l *Latest) Add(q Query) {
	if !q.Outcome.Lost() {
		return
	}
	if l.Lost == 0 || q.Intended-l.Until > Quiet {
		l.From, l.Lost = q.Intended, 0
	}
	l.Until = max(l.Until, q.Intended)
	l.Lost++
}

// Length is how long queries were lost so far.
func (l Latest) Length() time.Duration { return l.Until - l.From }
