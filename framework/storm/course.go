package storm

import (
	"slices"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// course is how it went with a node that a notice named: the event that ended each stage, if it came to that in the time that
// the notice gives.
type course struct {
	put                                history.Event
	received, marked, drained, deleted *history.Event
}

// courses are those of all nodes that were named, in the order of their notices.
func courses(st *story.Story) (out []course) {
	for _, put := range st.AllOf(history.NoticePut) {
		if put.Node == "" || put.Until == nil {
			continue
		}
		c := course{put: put}
		inTime := func(e history.Event, ok bool) *history.Event {
			if !ok || e.At > *put.Until {
				return nil
			}
			return &e
		}
		_, received := st.Receivable(put)
		c.received = inTime(received, received.Kind != "")
		mark, marked := st.MarkedAfter(put.Node, put)
		c.marked = inTime(mark, marked)
		last, left := mark, marked // of a node without pods
		for _, p := range st.ToDrain(put.Node, put) {
			gone, ok := p.Left()
			if left = left && ok; gone.At > last.At {
				last = gone
			}
		}
		c.drained = inTime(last, left && last.Kind != "")
		if ids := st.MessagesOf(put); len(ids) > 0 {
			deleted, ok := st.First(func(e history.Event) bool { return e.Kind == history.SQSDeleted && slices.Contains(ids, e.Message) })
			c.deleted = inTime(deleted, ok)
		}
		out = append(out, c)
	}
	return out
}

// Stage is how far a storm's nodes came.
type Stage struct {
	Nodes   int     `yaml:"nodes" json:"nodes"`                                       // in time
	Slowest float64 `yaml:"slowestSeconds,omitempty" json:"slowestSeconds,omitempty"` // of these, after its notice
}

func stage(all []course, of func(course) *history.Event) (s Stage) {
	for _, c := range all {
		if e := of(c); e != nil {
			s.Nodes++
			s.Slowest = max(s.Slowest, (e.At - c.put.At).Seconds())
		}
	}
	return s
}
