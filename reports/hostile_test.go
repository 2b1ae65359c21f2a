package reports

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/history"
)

// A folder of a run can be an artifact of a job that somebody else controls.
func TestARunsFolderOfSomebodyElse(t *testing.T) {
	t.Parallel()
	attempt := filepath.Join(savedScenario, "attempt-2")
	for name, c := range map[string]struct {
		attack func(dir, outside string) error
		want   string // in the error of Judge; empty: none
		inside string // what merge must not copy; empty: nothing
	}{
		"the page is a link": {attack: func(dir, outside string) error {
			return os.Symlink(outside, filepath.Join(dir, HTMLFile))
		}},
		"the history is a pipe": {func(dir, _ string) error {
			file := filepath.Join(dir, attempt, history.EventsFile)
			return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600))
		}, "no regular file", "a link or a pipe"},
		"the history is a device": {func(dir, _ string) error {
			file := filepath.Join(dir, attempt, history.EventsFile)
			return errors.Join(os.Remove(file), os.Symlink("/dev/zero", file))
		}, "no regular file", "a link or a pipe"},
		"the report is a device": {func(dir, _ string) error { return os.Symlink("/dev/zero", filepath.Join(dir, YAMLFile)) }, "no regular file", ""},
		"the report is too large": {func(dir, _ string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, YAMLFile), nil, 0o600), os.Truncate(filepath.Join(dir, YAMLFile), mostReport+1))
		}, "too large", ""},
		"the scenario is a link": {func(dir, outside string) error {
			file := filepath.Join(dir, attempt, savedScenario+".yaml")
			return errors.Join(os.Remove(file), os.Symlink(outside, file))
		}, "no regular file", "a link or a pipe"},
		"the scenario is elsewhere": {func(dir, _ string) error {
			return respell(filepath.Join(dir, attempt, history.EventsFile), `"scenario":"`+savedScenario, `"scenario":"../../../../outside`)
		}, "cannot be the name of a scenario", ""},
		"a name that a terminal obeys": {func(dir, _ string) error {
			return respell(filepath.Join(dir, attempt, history.EventsFile), `"scenario":"`+savedScenario, `"scenario":"\u001b[2J`)
		}, "characters that a name cannot have", ""},
		"the attempt is a link": {func(dir, _ string) error {
			old := filepath.Join(dir, attempt)
			return errors.Join(os.Rename(old, filepath.Join(filepath.Dir(dir), "attempt")), os.RemoveAll(filepath.Join(dir, savedScenario, "attempt-1")),
				os.Symlink(filepath.Join(filepath.Dir(dir), "attempt"), old))
		}, "no history", "a link or a pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			dir, outside := filepath.Join(parent, "run"), filepath.Join(parent, "outside")
			if err := errors.Join(os.CopyFS(dir, os.DirFS(savedRun)), os.WriteFile(outside, []byte("mine"), 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := c.attack(dir, outside); err != nil {
				t.Fatal(err)
			}
			r, err := Judge(t.Context(), dir)
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || c.want == "" && err != nil {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if err == nil {
				if _, err := r.WritePage(); err != nil {
					t.Error(err)
				}
			}
			if err := copyHistories(t.Context(), t.TempDir(), []string{dir}); (c.inside != "") != errors.Is(err, files.ErrNotRegular) {
				t.Errorf("merge: %v", err)
			}
			if text, err := os.ReadFile(outside); err != nil || string(text) != "mine" {
				t.Errorf("outside: %q, %v", text, err)
			}
		})
	}
}

func respell(file, from, to string) error {
	text, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(text, []byte(from)) {
		return errors.Join(err, errors.New(from+" is not there"))
	}
	return os.WriteFile(file, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600)
}

// Few bytes on disk must not take much memory.
func TestFilesThatGrowWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	dir := copyOfRun(t)
	queries := filepath.Join(dir, savedScenario, "attempt-2", history.QueriesFile)
	if err := os.Truncate(queries, 1<<40); err != nil {
		t.Skip(err)
	}
	began := time.Now()
	h, err := history.Load(filepath.Dir(queries))
	if err != nil || len(h.Queries) > history.MostQueries || time.Since(began) > time.Minute {
		t.Errorf("%d queries, complete: %t, %v", len(h.Queries), h.Complete, err)
	}
	t.Logf("%d queries after %s: %s", len(h.Queries), time.Since(began), h.Damage)
}

// What a handler, a cluster or a scenario writes is shown, and never obeyed.
func TestNoWriterPassesOnWhatIsObeyed(t *testing.T) {
	t.Parallel()
	const evil = "::error::owned\x1b]0;owned\x07 ]]> | <img src=x onerror=alert(1)> [x](javascript:alert(1)) `id` \\[y\\](https://evil.example)\r\n::add-mask::x\u202e"
	r := sampleReport()
	for i := range r.Results {
		e := &r.Results[i]
		e.Title, e.Deviation, e.Other, e.PlayedWith, e.LaneAttempt, e.HandlerPods = evil, evil, evil, evil, evil, []string{evil}
		for k := range e.Verdicts {
			v := &e.Verdicts[k]
			v.Check, v.Want, v.Got, v.Subject = evil, evil, evil, evil
		}
	}
	r.EndedEarly, r.Handler.Version, r.Environment = evil, evil, map[string]string{"kernel": evil, "engine": evil}
	for name, write := range map[string]func(io.Writer) error{
		"console": func(w io.Writer) error {
			c := NewConsole(w, len(r.Results))
			for _, e := range r.Results {
				c.Begin(e.Scenario, 0)
				c.Note(evil)
				c.End(e)
				c.Verdicts(e)
			}
			c.Conclude(evil)
			c.Summary(r)
			return nil
		},
		JUnitFile: r.WriteJUnit, MarkdownFile: r.WriteMarkdown, MetricsFile: r.WriteOpenMetrics, BadgeFile: r.WriteBadge, HTMLFile: r.WriteHTML,
		"compare": func(w io.Writer) error { return Compare([]*Report{r, r}).WriteText(w) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := unpacked(t, out.String())
		for line := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "::") && name != HTMLFile { // no log is HTML
				t.Errorf("%s has a command: %q", name, line)
			}
		}
		obeyed := func(c rune) bool { return c != '\n' && c != '\t' && !unicode.IsPrint(c) } // also what turns the writing around
		if i := strings.IndexFunc(text, obeyed); i >= 0 {
			t.Errorf("%s has %q", name, text[max(0, i-20):min(len(text), i+20)])
		}
		if strings.Contains(text, "<img") && (name == MarkdownFile || name == HTMLFile) {
			t.Errorf("%s has markup of others", name)
		}
		if strings.ContainsAny(strings.NewReplacer(`\[`, "", `\]`, "").Replace(strings.ReplaceAll(text, `\\`, "")), "[]") && name == MarkdownFile {
			t.Errorf("%s has a link of others", name)
		}
		if name == MarkdownFile {
			cells := 0 // of the table's head
			for line := range strings.SplitSeq(text, "\n") {
				n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
				if cells > 0 && n > 0 && n != cells {
					t.Errorf("%s has a row with other cells: %s", name, line)
				}
				cells = n
			}
		}
		if name == JUnitFile {
			var root struct{ XMLName xml.Name }
			if err := xml.Unmarshal(out.Bytes(), &root); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestAReportThatIsCutShortIsNotRead(t *testing.T) {
	t.Parallel()
	file := verifiable(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	for n := range lines[:len(lines)-1] {
		if err := os.WriteFile(file, bytes.Join(lines[:n], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Load(file); err == nil && len(r.Results) < 2 {
			t.Errorf("%d of %d lines are read as a report of %d drills", n, len(lines), len(r.Results))
		}
	}
}

// On a full disk, Latest stays with a run whose files are whole.
func TestLatestIsARunWithItsFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	whole, err := NewFolder(root, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Write(New(whole, Handler{Name: "a"}, "fast", nil)); err != nil {
		t.Fatal(err)
	}
	broken, err := NewFolder(root, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(broken.Path, JUnitFile, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := broken.Write(New(broken, Handler{Name: "a"}, "fast", nil)); err == nil {
		t.Error("no error")
	}
	if at, err := os.Readlink(filepath.Join(root, Latest)); err != nil || at != whole.Run {
		t.Errorf("latest is %s, %v; want %s", at, err, whole.Run)
	}
}
