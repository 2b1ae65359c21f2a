package trackrecord

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestARecordIsReadAsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record.yaml")
	r, err := ReadRecord(file)
	if err != nil || len(r.Rows) != 0 {
		t.Fatalf("got %v, %v", r, err)
	}
	first := Row{Issue: "b#1", Date: "2026-11-23", Digest: "sha256:1", Broken: Play{Version: "v1", Plays: 2, Color: Red, Saw: "marked: not", Seconds: 40}, On: "here"}
	if r, err = r.Write(file, first); err != nil {
		t.Fatal(err)
	}
	later := first
	later.Date, later.Fixed = "2026-11-24", &Play{Version: "v2", Plays: 1, Color: Green, Saw: "all"}
	for _, row := range []Row{{Issue: "A#1", Date: "2026-11-01"}, later} {
		if r, err = r.Write(file, row); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadRecord(file)
	if err != nil || len(got.Rows) != 2 || got.Rows[0].Issue != "A#1" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if row, ok := got.Of("b#1"); !ok || row.Date != later.Date || *row.Fixed != *later.Fixed || row.Broken != later.Broken {
		t.Errorf("got %+v", row)
	}
}

func TestInvalidRecords(t *testing.T) {
	for text, want := range map[string]string{
		"rows: [{issue: a, day: x}]":              "day",
		"rows: [{issue: a, date: 23 November}]":   "a: parsing time",
		"rows: [{issue: a, date: 2026-11-23, {]}": "record.yaml",
	} {
		file := filepath.Join(t.TempDir(), "record.yaml")
		write(t, file, text)
		if _, err := ReadRecord(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestWhenACaseWasReproduced(t *testing.T) {
	c := Case{Issue: "a", Broken: "v1", Fixed: "v2", Plays: 1}
	row := Row{Issue: "a", Date: "2026-11-23", Broken: Play{Version: "v1", Plays: 3}, Fixed: &Play{Version: "v2"}}
	for _, s := range []struct {
		edit func(c *Case, row *Row)
		want string
	}{
		{func(*Case, *Row) {}, "2026-11-23"},
		{func(_ *Case, row *Row) { row.Issue = "b" }, "never"},
		{func(c *Case, _ *Row) { c.Broken = "v1.1" }, "2026-11-23, with other versions"},
		{func(_ *Case, row *Row) { row.Fixed = nil }, "2026-11-23, with other versions"},
		{func(_ *Case, row *Row) { row.Digest = "sha256:old" }, "2026-11-23, before its scenario changed"},
		{func(c *Case, _ *Row) { c.Plays = 5 }, "2026-11-23, red after 3 of at most 5 plays"},
	} {
		c, row := c, row
		s.edit(&c, &row)
		if got := c.last(Record{Rows: []Row{row}}); got != s.want {
			t.Errorf("%q, want %q", got, s.want)
		}
	}
}

func TestAPageHasAPlaceForTheTable(t *testing.T) {
	page := "# Title\n\n" + begin + "old\n" + end + "\nmore\n"
	got, err := Insert(page, "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	for _, broken := range []string{"", strings.Replace(page, begin, "", 1), strings.Replace(page, end, "", 1)} {
		if _, err := Insert(broken, "new\n"); err == nil {
			t.Errorf("%q is accepted", broken)
		}
	}
}

// `make fix` writes the table, and so does `make reproduce`.
func TestTheTableIsTheRecord(t *testing.T) {
	r, err := ReadRecord("../record.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const page = root + "/docs/track-record.md"
	if *update {
		if err := WriteTable(page, cases(t), r); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), begin+Table(cases(t), r)+end) {
		t.Errorf("%s is out of date: run `make fix`", page)
	}
}

// Otherwise make verify would refuse what make reproduce writes.
func TestTheRecordIsWrittenAsItIsFormatted(t *testing.T) {
	was, err := os.ReadFile("../record.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadRecord("../record.yaml")
	if err != nil || len(r.Rows) == 0 {
		t.Fatalf("%d rows, %v", len(r.Rows), err)
	}
	file := filepath.Join(t.TempDir(), "record.yaml")
	if _, err := r.Write(file, r.Rows[0]); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(was) {
		t.Errorf("%v\n%s", err, now)
	}
}
