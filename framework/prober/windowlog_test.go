package prober

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

// Whatever it forgets on the way, a log ends with the windows that all queries
// together have.
func TestWindowLogAgreesWithTheWholeStream(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		s := Stream{Target: history.Service, Mode: history.Fresh, Rate: 100}
		log := NewWindowLog(Plan{Timeout: time.Second}, s)
		var all, held []history.Query
		most, losing := 0, false
		for i := range 6000 { // a minute
			q := history.Query{Target: s.Target, Mode: s.Mode, Intended: intended(i, s.Rate), Outcome: history.Answered}
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
				log.Add(q)
			}
			for len(held) > 0 && (held[0].Intended < q.Intended-time.Second || i == 5999) {
				log.Add(held[0])
				held = held[1:]
			}
			if i%100 == 0 {
				log.Settle(q.Intended)
			}
			most = max(most, len(log.recent)+len(log.settled))
		}
		for _, q := range held {
			log.Add(q)
		}
		want := history.Windows(history.Stream(all, s.Target, s.Mode), history.Quiet)
		if got := log.Windows(); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		if most > 4000 {
			t.Errorf("held up to %d of 6000 queries", most)
		}
	}
}
