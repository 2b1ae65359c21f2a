package rundelay

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// The memory of a pod's processes is one figure, every ten seconds.
func TestMemory(t *testing.T) {
	sc := newScript(t)
	var got []Memory
	sc.s.Memory = func(m Memory) { got = append(got, m) }
	for pid, held := range map[string]string{"7": "2048 kB", "8": "1024 kB", "9": "many"} {
		write(t, filepath.Join(sc.proc, pid, "status"), "Name:\tx\nVmRSS:\t9999 kB\nRssAnon:\t"+held+"\n")
	}
	sc.found = []Process{{7, "handler"}, {8, "handler"}, {9, "dns"}, {10, "dns"}} // the tenth has ended
	for _, at := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, 11 * time.Second, 20 * time.Second} {
		if err := sc.s.look(at); err != nil {
			t.Fatal(err)
		}
	}
	want := []Memory{{"handler", time.Second, 3 << 20}, {"handler", 11 * time.Second, 3 << 20}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAnonymous(t *testing.T) {
	for status, want := range map[string]int64{
		"RssAnon:\t     100 kB\n":        100 << 10,
		"RssFile: 1 kB\nRssAnon: 2 kB\n": 2 << 10,
		"RssAnon: x kB\n":                -1,
		"RssAnon:\n":                     -1,
		"":                               -1,
	} {
		proc := t.TempDir()
		write(t, filepath.Join(proc, "7", "status"), status)
		got, err := anonymous(proc, 7)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v; want %d", status, got, err, want)
		}
	}
}
