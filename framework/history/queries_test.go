package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// everyOutcome is a query of each, over two streams.
func everyOutcome() []Query {
	var queries []Query
	for i, outcome := range Outcomes() {
		q := Query{Target: Service, Mode: []Mode{Fresh, Fixed}[i%2], Port: 65535 - i, Intended: ms(1000*i) + 1, Sent: ms(1000*i) + 2, Done: ms(1000*i+900) + 3, Outcome: outcome}
		if outcome == Unsent {
			q.Port, q.Sent = 0, 0
		}
		queries = append(queries, q)
	}
	return queries
}

func queryRecord(t testing.TB, queries []Query) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewQueryWriter(&b, map[string]int{"header": 1})
	for _, q := range queries {
		if err := w.Write(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close("the end"); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readQueries(b []byte) (queries []Query, r *QueryReader, err error) {
	r, err = NewQueryReader(bytes.NewReader(b))
	for err == nil {
		var q Query
		if q, err = r.Next(); err == nil {
			queries = append(queries, q)
		}
	}
	return queries, r, err
}

func TestQueriesSurviveTheirRecord(t *testing.T) {
	queries := everyOutcome()
	got, r, err := readQueries(queryRecord(t, queries))
	if !errors.Is(err, io.EOF) || !reflect.DeepEqual(got, queries) {
		t.Errorf("got  %+v\nwant %+v (%v)", got, queries, err)
	}
	var header map[string]int
	var trailer string
	if err := errors.Join(r.Header(&header), r.Trailer(&trailer)); err != nil || header["header"] != 1 || trailer != "the end" {
		t.Errorf("header %v, trailer %q: %v", header, trailer, err)
	}
}

func TestAQueryTakes24BytesAtMost(t *testing.T) {
	var queries []Query
	for range 1000 {
		queries = append(queries, everyOutcome()...)
	}
	if size := len(queryRecord(t, queries)); size > 24*len(queries) {
		t.Errorf("%d queries take %d bytes", len(queries), size)
	}
}

// A hundred probers have several streams each.
func TestARecordHasRoomForTheStreamsOfManyProbers(t *testing.T) {
	var queries []Query
	for n := range 1000 {
		queries = append(queries, Query{Target: Service, Mode: Fresh, Node: fmt.Sprint("node-", n), Port: 40000, Intended: ms(n), Sent: ms(n), Done: ms(n + 1), Outcome: Answered})
	}
	queries = append(queries, queries...)
	read, _, err := readQueries(queryRecord(t, queries))
	if !errors.Is(err, io.EOF) || !slices.Equal(read, queries) {
		t.Errorf("%d of %d queries came back, error %v", len(read), len(queries), err)
	}
}

func TestADamagedQueryRecordIsNeverWhole(t *testing.T) {
	whole := queryRecord(t, everyOutcome())
	for n := range whole {
		if _, _, err := readQueries(whole[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(whole), err)
		}
		bad := bytes.Clone(whole)
		bad[n] ^= 0x10
		if _, _, err := readQueries(bad); err == nil || errors.Is(err, io.EOF) {
			t.Fatalf("byte %d of %d changed unnoticed", n, len(whole))
		}
	}
}

func TestDamageOfAQueryRecordIsSaid(t *testing.T) {
	whole := string(queryRecord(t, everyOutcome()))
	changed := func(query, offset int, to byte) string {
		start := len(queriesMagic) + 4 + len(`{"header":1}`) + querySize + len(`{"target":"service","mode":"fresh"}`)
		b := []byte(whole)
		b[start+query*querySize+offset] = to
		return string(b)
	}
	for name, c := range map[string]struct{ content, want string }{
		"nothing":        {"", "its start: unexpected EOF"},
		"another format": {"PK\x03\x04 and so on, and so on", `it begins with "PK\x03\x04 and", want "spotdrQ2"`},
		"cut short":      {whole[:200], "after 2 queries: unexpected EOF"},
		"a new outcome":  {changed(0, 22, 12), "outcome 12, want 1 to 11"},
		"a new stream":   {changed(0, 20, 7), "stream 7, which was not introduced"},
		"a huge text":    {queriesMagic + "\xff\xff\xff\xff", "a text of 4294967295 bytes"},
	} {
		if _, _, err := readQueries([]byte(c.content)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestWhatDoesNotFitAQueryRecordIsAnError(t *testing.T) {
	for name, q := range map[string]Query{
		"no outcome":     {Target: Service, Mode: Fresh},
		"a huge port":    {Port: 1 << 16, Outcome: Answered},
		"a negative one": {Port: -1, Outcome: Answered},
		"an hour's wait": {Done: ms(3_600_000), Outcome: Timeout},
	} {
		w := NewQueryWriter(io.Discard, nil)
		if err := w.Write(q); err == nil || w.Close(nil) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Whatever is in a record, reading it ends without harm, and what it holds can be
// written again.
func FuzzQueryRecord(f *testing.F) {
	f.Add(queryRecord(f, everyOutcome()))
	f.Add(queryRecord(f, nil))
	f.Add([]byte(queriesMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		queries, _, err := readQueries(b)
		if err == nil {
			t.Fatal("reading does not end")
		}
		var again bytes.Buffer
		w := NewQueryWriter(&again, nil)
		for _, q := range queries {
			if err := w.Write(q); err != nil {
				t.Fatalf("%+v was read but cannot be written: %v", q, err)
			}
		}
		if err := w.Close(nil); err != nil {
			t.Fatal(err)
		}
		back, _, err := readQueries(again.Bytes())
		if !errors.Is(err, io.EOF) || !reflect.DeepEqual(back, queries) {
			t.Errorf("%+v became %+v (%v)", queries, back, err)
		}
	})
}
