package history

import (
	"reflect"
	"testing"
	"time"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// stream writes a query every 100 ms: . answered, x lost, u unsent, space none.
func stream(fates string) []Query {
	var out []Query
	for i, fate := range fates {
		q := Query{Target: Service, Mode: Fresh, Intended: ms(i * 100), Outcome: Answered}
		switch fate {
		case ' ':
			continue
		case 'x':
			q.Outcome = Timeout
		case 'u':
			q.Outcome = Unsent
		}
		out = append(out, q)
	}
	return out
}

func TestWindows(t *testing.T) {
	for name, c := range map[string]struct {
		fates string
		want  []Window
	}{
		"nothing asked":                       {"", nil},
		"nothing lost":                        {".....", nil},
		"one lost":                            {"..x..", []Window{{From: ms(200), To: ms(300), FromMargin: ms(100), ToMargin: ms(100), Lost: 1, Asked: 2}}},
		"the first lost":                      {"x..", []Window{{From: 0, To: ms(100), ToMargin: ms(100), Lost: 1, Asked: 2}}},
		"several in a row":                    {".xxx..", []Window{{From: ms(100), To: ms(400), FromMargin: ms(100), ToMargin: ms(100), Lost: 3, Asked: 4}}},
		"every second one":                    {".x.x.x..", []Window{{From: ms(100), To: ms(600), FromMargin: ms(100), ToMargin: ms(100), Lost: 3, Asked: 6}}},
		"a gap of quiet is one window":        {"x....x.", []Window{{From: 0, To: ms(600), ToMargin: ms(100), Lost: 2, Asked: 7}}},
		"a gap of more than quiet is two":     {"x.....x.", []Window{{From: 0, To: ms(100), ToMargin: ms(100), Lost: 1, Asked: 2}, {From: ms(600), To: ms(700), FromMargin: ms(100), ToMargin: ms(100), Lost: 1, Asked: 2}}},
		"open at the end":                     {"..xx", []Window{{From: ms(200), To: ms(300), FromMargin: ms(100), Lost: 2, Asked: 2, Open: true}}},
		"one lost at the end":                 {"..x", []Window{{From: ms(200), To: ms(200), FromMargin: ms(100), Lost: 1, Asked: 1, Open: true}}},
		"all lost":                            {"xxx", []Window{{From: 0, To: ms(200), Lost: 3, Asked: 3, Open: true}}},
		"closed, then open":                   {"x.......x", []Window{{From: 0, To: ms(100), ToMargin: ms(100), Lost: 1, Asked: 2}, {From: ms(800), To: ms(800), FromMargin: ms(100), Lost: 1, Asked: 1, Open: true}}},
		"unsent ones neither lose nor answer": {"xux.u.", []Window{{From: 0, To: ms(300), ToMargin: ms(100), Lost: 2, Asked: 3}}},
		"unsent ones alone":                   {"uuu", nil},
		"a hole without queries ends nothing": {"x        x.", []Window{{From: 0, To: ms(1000), ToMargin: ms(100), Lost: 2, Asked: 3}}},
		"nor do unsent ones":                  {"xuuuuuuuux.", []Window{{From: 0, To: ms(1000), ToMargin: ms(100), Lost: 2, Asked: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Windows(QueriesWithin(stream(c.fates), 0, 1<<62, Service, Fresh), Quiet); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: got  %+v\nwant %+v", c.fates, got, c.want)
			}
		})
	}
}

func TestAWindowsMarginsSayWhatAStalledProberDidNotAsk(t *testing.T) {
	var queries []Query
	for _, q := range []struct {
		intended, sent int
		outcome        Outcome
	}{{0, 0, Answered}, {10, 40, Timeout}, {20, 41, Timeout}, {30, 42, Timeout}, {50, 50, Timeout}, {60, 95, Answered}, {70, 96, Answered}} {
		queries = append(queries, Query{Target: Service, Mode: Fresh, Intended: ms(q.intended), Sent: ms(q.sent), Outcome: q.outcome})
	}
	want := []Window{{From: ms(40), FromMargin: ms(40), To: ms(95), ToMargin: ms(45), Lost: 4, Asked: 5}}
	if got := Windows(QueriesWithin(queries, 0, 1<<62, Service, Fresh), Quiet); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// It is unknown which query of a stalled batch left first.
func TestAWindowsMarginsReachBackToAnEarlierMoment(t *testing.T) {
	var queries []Query
	for _, q := range []struct {
		sent    int
		outcome Outcome
	}{{10, Answered}, {30, Answered}, {30, Timeout}, {35, Timeout}, {50, Timeout}, {50, Answered}} {
		queries = append(queries, Query{Target: Service, Mode: Fixed, Sent: ms(q.sent), Outcome: q.outcome})
	}
	want := []Window{{From: ms(30), FromMargin: ms(20), To: ms(50), ToMargin: ms(15), Lost: 3, Asked: 4}}
	if got := Windows(QueriesWithin(queries, 0, 1<<62, Service, Fixed), Quiet); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What left in a stalled batch is stamped with its end. If all of it was lost and the
// next batch was answered, the outage may have ended at any time since the stall began.
func TestAWindowsMarginsIncludeTheStallOfTheBatchBeforeTheEdge(t *testing.T) {
	type sent struct {
		node           string
		intended, sent time.Duration
		done           time.Duration // 0: long after
		outcome        Outcome
	}
	us := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	for name, c := range map[string]struct {
		queries                        []sent
		from, fromMargin, to, toMargin int // µs
	}{
		"the batch of the last lost ones stalled": {
			queries: []sent{
				{intended: us(0), sent: us(100), outcome: Answered},
				{intended: us(1000), sent: us(1100), outcome: ICMP},
				{intended: us(1100), sent: us(5000), outcome: ICMP},
				{intended: us(1150), sent: us(5000), outcome: ICMP},
				{intended: us(1200), sent: us(5001), outcome: Answered},
			},
			from: 1100, fromMargin: 1100, to: 5001, toMargin: 5001 - 1150,
		},
		"the batch of the last answered ones stalled": {
			queries: []sent{
				{intended: us(900), sent: us(1000), outcome: Answered},
				{intended: us(950), sent: us(5000), outcome: Answered},
				{intended: us(960), sent: us(5000), outcome: Answered},
				{intended: us(970), sent: us(5001), outcome: ICMP},
				{intended: us(6000), sent: us(6010), outcome: Answered},
			},
			from: 5001, fromMargin: 4001, to: 6010, toMargin: 6010 - 5000,
		},
		// Its time of arrival is the latest at which it can have left; the query after it
		// may have left earlier.
		"an answer came before the stall ended": {
			queries: []sent{
				{intended: us(900), sent: us(1000), outcome: Answered},
				{intended: us(950), sent: us(3000), done: us(3000), outcome: Answered},
				{intended: us(960), sent: us(5000), outcome: Timeout},
				{intended: us(970), sent: us(5001), outcome: Answered},
			},
			from: 5000, fromMargin: 4000, to: 5001, toMargin: 4001,
		},
		"another prober's queries show nothing about it": {
			queries: []sent{
				{node: "a", intended: us(1000), sent: us(1010), outcome: Answered},
				{node: "a", intended: us(2000), sent: us(9000), outcome: ICMP},
				{node: "b", intended: us(2500), sent: us(9001), outcome: Answered},
			},
			from: 9000, fromMargin: 8000, to: 9001, toMargin: 7001,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var queries []Query
			lost := 0
			for _, q := range c.queries {
				done := q.done
				if done == 0 {
					done = q.sent + time.Second
				}
				if q.outcome.Lost() {
					lost++
				}
				queries = append(queries, Query{Target: Service, Node: q.node, Mode: Fixed, Intended: q.intended, Sent: q.sent, Done: done, Outcome: q.outcome})
			}
			got := Windows(queries, Quiet)
			if len(got) != 1 || got[0].Lost != lost {
				t.Fatalf("got %+v", got)
			}
			got[0].Lost, got[0].Asked = 0, 0
			if want := (Window{From: us(c.from), FromMargin: us(c.fromMargin), To: us(c.to), ToMargin: us(c.toMargin)}); got[0] != want {
				t.Errorf("got  %+v\nwant %+v", got[0], want)
			}
		})
	}
}

func TestWindowLength(t *testing.T) {
	if got := (Window{From: ms(200), To: ms(1500)}).Length(); got != ms(1300) {
		t.Errorf("length %s", got)
	}
}

func TestStream(t *testing.T) {
	queries := []Query{
		{Target: Service, Mode: Fresh, Intended: ms(3), Outcome: Answered},
		{Target: Service, Mode: Fixed, Intended: ms(1), Outcome: Answered},
		{Target: Control, Mode: Fresh, Intended: ms(1), Outcome: Answered},
		{Target: Service, Mode: Fresh, Intended: ms(2), Outcome: Unsent},
		{Target: Service, Mode: Fresh, Intended: ms(1), Outcome: Timeout},
	}
	got := QueriesWithin(queries, 0, 1<<62, Service, Fresh)
	if len(got) != 2 || got[0].Intended != ms(1) || got[1].Intended != ms(3) {
		t.Errorf("stream %+v", got)
	}
	if queries[0].Intended != ms(3) {
		t.Error("the queries themselves were put in order")
	}
}

// Whatever is lost lies within a window, and windows do not meet.
func FuzzWindows(f *testing.F) {
	f.Add([]byte{1, 0, 1, 0, 0, 0, 0, 0, 0, 1}, uint8(100))
	f.Fuzz(func(t *testing.T, fates []byte, interval uint8) {
		var queries []Query
		for i, fate := range fates {
			outcomes := Outcomes()
			queries = append(queries, Query{Target: Service, Mode: Fresh, Intended: time.Duration(i) * ms(int(interval)), Outcome: outcomes[int(fate)%len(outcomes)]})
		}
		asked := QueriesWithin(queries, 0, 1<<62, Service, Fresh)
		windows := Windows(asked, Quiet)
		lost := 0
		for i, w := range windows {
			lost += w.Lost
			if w.Lost < 1 || w.Lost > w.Asked || w.Length() < 0 || w.FromMargin < 0 || w.ToMargin < 0 || w.Open && i != len(windows)-1 {
				t.Errorf("window %+v", w)
			}
			if i > 0 && w.From <= windows[i-1].From {
				t.Errorf("%+v after %+v", w, windows[i-1])
			}
		}
		for _, q := range asked {
			if q.Outcome.Lost() {
				lost--
			}
		}
		if lost != 0 {
			t.Errorf("%d more lost within windows than there are", lost)
		}
	})
}

func TestOutcomes(t *testing.T) {
	for _, o := range Outcomes() {
		if o.Lost() == (o == Answered || o == Unsent) {
			t.Errorf("%s is lost: %t", o, o.Lost())
		}
	}
	if !Outcome("").Lost() {
		t.Error("an outcome that was never set counts as answered")
	}
}
