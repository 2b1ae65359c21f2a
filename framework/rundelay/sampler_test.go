package rundelay

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// script is a proc file system with one process, whose counts a test sets, and the clock.
type script struct {
	t     *testing.T
	proc  string
	found []Process
	waits []wait
	drops []drop
	held  []held
	s     sampler
}

// wait, drop and held are the events of a sampler.
type (
	wait struct {
		name                                 string
		from, to, ran, throttled, resolution time.Duration
	}
	drop struct {
		name     string
		from, to time.Duration
		dropped  int
	}
	held struct {
		name  string
		at    time.Duration
		bytes int
	}
)

func (sc *script) record(e history.Event) {
	n := func(name history.Number) time.Duration { return e.Numbers.Duration(name).Round(time.Microsecond) }
	switch e.Kind {
	case history.ProcessorWaited:
		w := wait{e.Pod, e.At - n(history.Waited), e.At, n(history.Ran), -1, n(history.Resolution)}
		if _, known := e.Numbers[history.Throttled]; known {
			w.throttled = n(history.Throttled)
		}
		sc.waits = append(sc.waits, w)
	case history.DatagramsDropped:
		sc.drops = append(sc.drops, drop{e.Pod, e.At - n(history.Within), e.At, int(e.Numbers[history.Dropped])})
	case history.MemoryUsed:
		sc.held = append(sc.held, held{e.Pod, e.At, int(e.Numbers[history.Bytes])})
	}
}

func newScript(t *testing.T) *script {
	sc := &script{t: t, proc: t.TempDir()}
	sc.s = sampler{
		proc: sc.proc, groups: filepath.Join(sc.proc, "cgroup"), processes: map[Process]*process{},
		find: func() ([]Process, error) { return sc.found, nil }, record: sc.record,
	}
	t.Cleanup(sc.s.close)
	return sc
}

func (sc *script) thread(id int, ran, waited time.Duration) {
	write(sc.t, filepath.Join(sc.proc, "7", "task", fmt.Sprint(id), "schedstat"), fmt.Sprintf("%d %d 5\n", ran, waited))
}

func (sc *script) dropped(n int) {
	write(sc.t, filepath.Join(sc.proc, "7", "net", "snmp"), fmt.Sprintf("Udp: InDatagrams RcvbufErrors\nUdp: 9 %d\n", n))
}

func (sc *script) throttled(d time.Duration) {
	write(sc.t, filepath.Join(sc.proc, "7", "cgroup"), "0::/pod\n")
	write(sc.t, filepath.Join(sc.proc, "cgroup", "pod", "cpu.stat"), fmt.Sprintf("throttled_usec %d\n", d.Microseconds()))
}

func (sc *script) start() {
	sc.found = []Process{{7, "dns"}}
	if err := sc.s.look(0); err != nil {
		sc.t.Fatal(err)
	}
}

// The kernel adds a wait to a thread's run_delay when the wait is over: so it ended since
// the sample before, and began by its length earlier.
func TestAWaitIsKnownWhenItIsOver(t *testing.T) {
	sc := newScript(t)
	sc.thread(7, ms(1000), ms(500))
	sc.thread(8, ms(100), ms(300))
	sc.dropped(40)
	sc.throttled(0)
	sc.start()
	sc.s.sample(ms(10))
	for at := 20; at <= 410; at += 10 {
		sc.thread(8, ms(100+at/100), ms(300)) // another thread runs now and then
		sc.s.sample(ms(at))
	}
	sc.thread(7, ms(1001), ms(900))
	sc.dropped(73)
	sc.s.sample(ms(420))
	if want := []wait{{"dns", ms(20), ms(420), ms(5), 0, ms(10)}}; !reflect.DeepEqual(sc.waits, want) {
		t.Errorf("got  %+v\nwant %+v", sc.waits, want)
	}
	if want := []drop{{"dns", 0, ms(420), 33}}; !reflect.DeepEqual(sc.drops, want) {
		t.Errorf("got %+v, want %+v", sc.drops, want)
	}
}

func TestWhatIsNoWait(t *testing.T) {
	for name, happens := range map[string]func(*script){
		"short ones":                    func(sc *script) { sc.thread(7, ms(1003), ms(519)) },
		"the waits before it was found": func(*script) {},
		"a process that is stopped":     func(*script) {}, // no count of it changes
		"one that ended":                func(sc *script) { sc.thread(7, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			sc := newScript(t)
			sc.thread(7, ms(1000), ms(500))
			sc.start()
			sc.s.sample(ms(10))
			happens(sc)
			sc.s.sample(ms(500))
			if sc.waits != nil {
				t.Errorf("%+v", sc.waits)
			}
		})
	}
}

// A thread that a known process has started since the last look did all its waiting since.
func TestANewThreadOfAKnownProcess(t *testing.T) {
	sc := newScript(t)
	sc.thread(7, ms(1000), ms(500))
	sc.start()
	sc.s.sample(ms(90))
	sc.thread(9, ms(1), ms(60))
	if err := sc.s.look(ms(100)); err != nil {
		t.Fatal(err)
	}
	sc.s.sample(ms(110))
	if len(sc.waits) != 1 || sc.waits[0].from != ms(50) || sc.waits[0].to != ms(110) {
		t.Errorf("%+v", sc.waits)
	}
}

// A wait by the process's own CPU limit is marked as that; where the limit cannot be read,
// it is negative.
func TestThrottledWaits(t *testing.T) {
	for _, known := range []bool{true, false} {
		sc := newScript(t)
		sc.thread(7, 0, 0)
		if known {
			sc.throttled(ms(50))
		}
		sc.start()
		if known {
			sc.throttled(ms(130))
		}
		sc.thread(7, 0, ms(100))
		sc.s.sample(ms(100))
		want := ms(80)
		if !known {
			want = -1
		}
		if len(sc.waits) != 1 || sc.waits[0].throttled != want {
			t.Errorf("limit known %t: %+v, want %v", known, sc.waits, want)
		}
	}
}

func TestAProcessThatEnded(t *testing.T) {
	sc := newScript(t)
	sc.thread(7, 0, 0)
	sc.start()
	sc.found = nil
	if err := sc.s.look(ms(100)); err != nil {
		t.Fatal(err)
	}
	sc.thread(7, 0, ms(100))
	sc.s.sample(ms(200))
	if len(sc.waits) > 0 || len(sc.s.processes) > 0 {
		t.Errorf("%+v of %d processes", sc.waits, len(sc.s.processes))
	}
}

// A long wait that began with the process's own CPU limit is marked as that, although new
// processes were looked for in between.
func TestAWaitThatBeganThrottled(t *testing.T) {
	sc := newScript(t)
	sc.thread(7, 0, 0)
	sc.throttled(0)
	sc.start()
	sc.throttled(ms(80))
	for at := 20; at <= 400; at += 20 {
		sc.s.sample(ms(at))
		if err := sc.s.look(ms(at)); err != nil {
			t.Fatal(err)
		}
	}
	sc.thread(7, 0, ms(410))
	sc.s.sample(ms(420))
	if len(sc.waits) != 1 || sc.waits[0].throttled != ms(80) {
		t.Errorf("%+v, want 80 ms of it throttled", sc.waits)
	}
}

// What a process did before the first sample since it was found counts.
func TestAWaitJustAfterAProcessWasFound(t *testing.T) {
	sc := newScript(t)
	sc.thread(7, 0, 0)
	sc.thread(8, 0, 0)
	sc.start()
	sc.thread(7, 0, ms(40))
	sc.thread(8, ms(39), 0)
	sc.s.sample(ms(40))
	if len(sc.waits) != 1 || sc.waits[0].ran != ms(39) {
		t.Errorf("%+v, want 39 ms of it run", sc.waits)
	}
}

// Time that the host stole is read once a second, and recorded if it was much of it.
func TestStolenTime(t *testing.T) {
	var got []string
	sc := newScript(t)
	sc.s.record = func(e history.Event) {
		n := e.Numbers
		got = append(got, fmt.Sprintf("%s +%s: %.2f s of %.0f within %.1f s", e.Kind, e.At, n[history.Stolen], n[history.Cores], n[history.Within]))
	}
	stolen := func(hundredths int) {
		write(t, filepath.Join(sc.proc, "stat"), fmt.Sprintf("cpu  9 0 9 9 0 0 0 %d 0 0\ncpu0 9 0 9 9 0 0 0 0 0 0\ncpu1 9 0 9 9 0 0 0 0 0 0\n", hundredths))
	}
	for _, at := range []struct{ ms, stolen int }{{100, 500}, {600, 900}, {1100, 550}, {2100, 555}, {3200, 655}} {
		stolen(at.stolen)
		if err := sc.s.look(ms(at.ms)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"processor.stolen +1.1s: 0.50 s of 2 within 1.0 s", "processor.stolen +3.2s: 1.00 s of 2 within 1.1 s"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
