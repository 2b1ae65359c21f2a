package conntrack

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

var someFlows = []history.Flow{
	{Port: 40000, Backend: "10.244.2.5", From: ms(5), To: ms(900), Removed: true},
	{Port: 40001, Backend: "10.244.3.7", From: ms(10), To: ms(800), Replied: true},
	{Port: 40000, Backend: "10.244.3.7", From: ms(905)},
}

// laterBy is an anchor of a process on this kernel whose base is that much later
// than the clock's.
func laterBy(n int, clock *history.Clock) history.Anchor {
	anchor := history.NewAnchor()
	since, _ := clock.Rebase(anchor)
	anchor.Monotonic += ms(n).Nanoseconds() - since.Nanoseconds()
	return anchor
}

func TestCollectTakesTheRecordIntoTheHistory(t *testing.T) {
	dir, clock := t.TempDir(), history.NewClock()
	rec, err := history.Create(dir, clock, history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	var record bytes.Buffer
	if err := writeRecord(&record, laterBy(1000, clock), someFlows, end{Flows: 3, Overflows: 2, InsertFailed: 1, Failures: []failure{{ms(100), ms(200), 1}}, CPU: ms(70)}); err != nil {
		t.Fatal(err)
	}
	flows, err := Collect(&record, rec, "worker")
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Flows(flows); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(true); err != nil {
		t.Fatal(err)
	}
	h, err := history.Load(dir)
	if err != nil || !h.Complete {
		t.Fatalf("damage %q (%v)", h.Damage, err)
	}
	want := []history.Flow{
		{Node: "worker", Port: 40000, Backend: "10.244.2.5", From: ms(1005), To: ms(1900), Removed: true},
		{Node: "worker", Port: 40001, Backend: "10.244.3.7", From: ms(1010), To: ms(1800), Replied: true},
		{Node: "worker", Port: 40000, Backend: "10.244.3.7", From: ms(1905)},
	}
	if !reflect.DeepEqual(h.Flows, want) {
		t.Errorf("got  %+v\nwant %+v", h.Flows, want)
	}
	if e := h.Events[0]; e.Kind != history.InsertsFailed || e.At != ms(1200) || e.Node != "worker" || e.Numbers[history.InsertFailed] != 1 || e.Numbers[history.Within] != 0.1 {
		t.Errorf("event %+v", e)
	}
	if e := h.Events[1]; e.Kind != history.FlowsRecorded || e.Node != "worker" || e.Numbers[history.FlowCount] != 3 || e.Numbers[history.Overflows] != 2 || e.Numbers[history.InsertFailed] != 1 || e.Numbers[history.Resolution] != 0.01 || e.Numbers[history.ClockBound] != 0 || e.Numbers[history.RecorderCPU] != 0.07 {
		t.Errorf("event %+v", e)
	}
}

func TestARecordThatIsNotWholeIsAnError(t *testing.T) {
	var whole bytes.Buffer
	if err := writeRecord(&whole, history.NewAnchor(), someFlows, end{Flows: 3}); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(whole.String(), "\n")
	for name, c := range map[string]struct {
		record string
		want   string
	}{
		"nothing":         {"", "after 0: EOF"},
		"not JSON":        {"hello", "after 0: invalid character"},
		"no anchor":       {strings.Join(lines[1:], ""), "the first line is not the anchor"},
		"no summary":      {strings.Join(lines[:4], ""), "after 3: it ends without a summary"},
		"half a line":     {strings.Join(lines[:2], "") + lines[2][:9], "after 1: unexpected EOF"},
		"a line is gone":  {strings.Join(append(lines[:2:2], lines[3:]...), ""), "the recorder sent 3, but 2 arrived"},
		"no flow":         {lines[0] + "{}\n" + lines[4], "a line is not a flow"},
		"no such port":    {lines[0] + `{"p":65536,"b":"10.244.2.5","at":1}` + lines[4], "a line is not a flow"},
		"without backend": {lines[0] + `{"p":1,"at":1}` + lines[4], "a line is not a flow"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, _, err := readRecord(strings.NewReader(c.record), history.NewClock())
			if err == nil {
				t.Fatal("taken for whole")
			}
			rec, created := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
			if created != nil {
				t.Fatal(created)
			}
			defer func() { _ = rec.Close(false) }()
			if _, err := Collect(strings.NewReader(c.record), rec, "worker"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// What is read as a record shows the same when it is written and read again.
func FuzzReadRecord(f *testing.F) {
	var whole bytes.Buffer
	if err := writeRecord(&whole, history.NewAnchor(), someFlows, end{Flows: 3, Overflows: 1, InsertFailed: 1, Failures: []failure{{1, 2, 1}}, CPU: 1}); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes())
	f.Add([]byte(`{"anchor":{}}` + "\n" + `{"summary":{"flows":0}}`))
	clock := history.NewClock()
	f.Fuzz(func(t *testing.T, record []byte) {
		all, last, _, _, err := readRecord(bytes.NewReader(record), clock)
		if err != nil {
			return
		}
		var written bytes.Buffer
		if err := writeRecord(&written, history.NewAnchor(), all, last); err != nil {
			t.Fatal(err)
		}
		again, lastAgain, _, _, err := readRecord(&written, clock)
		if err != nil || !reflect.DeepEqual(again, all) || !reflect.DeepEqual(lastAgain, last) {
			t.Errorf("got  %+v, %+v (%v)\nwant %+v, %+v", again, lastAgain, err, all, last)
		}
	})
}
