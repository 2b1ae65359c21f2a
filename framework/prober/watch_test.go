package prober

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Whatever it forgets on the way, a watch ends with the windows that all queries
// together have.
func TestWatchAgreesWithTheWholeStream(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		s := QueryStream{Target: history.Service, Mode: history.Fresh, Rate: 100}
		watch := NewWatch(Plan{Timeout: time.Second}, s)
		var all, held []history.Query
		most, losing := 0, false
		for i := range 6000 { // a minute
			q := history.Query{Target: s.Target, Mode: s.Mode, Intended: schedule{s.Rate}.intended(i), Outcome: history.Answered}
			if random.IntN(100) == 0 {
				losing = random.IntN(3) == 0
			}
			if losing && random.IntN(2) == 0 {
				q.Outcome = history.Timeout
			}
			all = append(all, q)
			if q.Outcome.Lost() {
				held = append(held, q) // known after the timeout only
			} else {
				watch.Add(q)
			}
			for len(held) > 0 && (held[0].Intended < q.Intended-time.Second || i == 5999) {
				watch.Add(held[0])
				held = held[1:]
			}
			if i%100 == 0 {
				watch.Settle(q.Intended)
			}
			most = max(most, len(watch.recent))
		}
		watch.Finish()
		want := history.Windows(history.QueriesWithin(all, 0, 1<<62, s.Target, s.Mode), history.Quiet)
		if got := watch.Windows(); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		if doubts := watch.Doubts(); doubts != nil {
			t.Errorf("doubts %+v", doubts)
		}
		if most > 800 {
			t.Errorf("held up to %d of 6000 queries", most)
		}
	}
}

func TestWhatIsLostInDoubtIsNoWindow(t *testing.T) {
	s := QueryStream{Target: history.Service, Mode: history.Fresh, Rate: 1000}
	at := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	watch := NewWatch(Plan{}, s)
	for i := range 1000 {
		q := history.Query{Target: s.Target, Mode: s.Mode, Intended: at(i), Sent: at(i), Done: at(i), Outcome: history.Answered}
		switch {
		case i >= 100 && i < 150, i >= 600 && i < 650: // lost while the echo was late, and while it was not
			q.Outcome = history.Timeout
		case i > 800 && i < 850: // nothing left
			continue
		}
		watch.Add(q)
		if i%10 == 0 {
			echo := history.Query{Target: history.Echo, Mode: history.Fixed, Intended: at(i), Sent: at(i), Done: at(i), Outcome: history.Answered}
			if i >= 100 && i < 150 {
				echo.Done = at(150)
			}
			watch.Add(echo)
		}
	}
	watch.Finish()
	if w := watch.Windows(); len(w) != 1 || w[0].From != at(600) || w[0].To != at(650) || w[0].Lost != 50 {
		t.Errorf("windows %+v", w)
	}
	want := []history.Doubt{
		{From: at(80), To: at(170), Reason: "echo: answered after more than 25ms"},
		{From: at(800), To: at(850), Reason: "nothing was sent"},
	}
	if got := watch.Doubts(); !reflect.DeepEqual(got, want) {
		t.Errorf("doubts %+v, want %+v", got, want)
	}
}
