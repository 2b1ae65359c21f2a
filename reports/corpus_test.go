package reports

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports/timeline"
	"github.com/spotdrill/spotdrill/scenarios"
)

// The corpus holds recorded drills, each as NAME.tar.gz, and what is judged of each
// as NAME.yaml. A change of the judge shows there:
//
//	go test ./reports -run Corpus -update
//
// A drill is added by its attempt folder; the new name should describe what it shows:
//
//	go test ./reports -run Corpus -add reports/out/latest/SCENARIO/attempt-1 -as NAME
var (
	addFlag = flag.String("add", "", "an attempt folder to add to the corpus, from the checkout's root")
	asFlag  = flag.String("as", "", "the name in the corpus of what -add adds")
	// The corpus would be large otherwise. The scenario's rates are divided by it, so that the
	// record looks like that of a slower prober.
	thinFlag = flag.Int("thin", 5, "the number of recorded queries of which -add keeps one; more if the drill is not about DNS")
)

const corpus = "testdata/corpus"

// recording is a drill of the corpus. It is read and judged once for all tests of this package, which run at the same
// time: a test that edits it edits a copy, see fromCorpus.
type recording struct {
	scenario scenarios.Scenario
	history  history.History
	judged   func() Entry
}

// recordings has for each drill that a test asked for a func() (recording, error).
var recordings sync.Map

func recordingOf(t *testing.T, name string) recording {
	t.Helper()
	read, _ := recordings.LoadOrStore(name, sync.OnceValues(func() (r recording, err error) {
		dir, err := os.MkdirTemp("", "corpus")
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(dir)
		if err := unpack(filepath.Join(corpus, name+".tar.gz"), dir); err != nil {
			return r, err
		}
		r.scenario, r.history, err = loadAttempt(dir)
		r.judged = sync.OnceValue(func() Entry { return judged(r.scenario, r.history) })
		return r, err
	}))
	r, err := read.(func() (recording, error))()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// corpusNames are the names of all recorded drills.
func corpusNames(t *testing.T) []string {
	t.Helper()
	packed, err := filepath.Glob(filepath.Join(corpus, "*.tar.gz"))
	if err != nil || len(packed) == 0 {
		t.Fatalf("no recorded drill in %s: %v", corpus, err)
	}
	for i, file := range packed {
		packed[i] = strings.TrimSuffix(filepath.Base(file), ".tar.gz")
	}
	return packed
}

// judgement is what the corpus keeps of a verdict: all that a report shows.
type judgement struct {
	Scenario string            `yaml:"scenario"`
	Handler  string            `yaml:"handler"`
	Outcome  verdict.Outcome   `yaml:"outcome"`
	Rerun    bool              `yaml:"rerun"` // whether the drill is played again
	Verdicts []verdict.Verdict `yaml:"verdicts"`
	Losses   []loss.Loss       `yaml:"losses,omitempty"`
	// ApplicationLosses are those of the application.
	ApplicationLosses []loss.Loss         `yaml:"applicationLosses,omitempty"`
	DNS               map[string]dnsFound `yaml:"dns,omitempty"`
	Waterfalls        []waterfallFound    `yaml:"waterfalls,omitempty"`
}

type dnsFound struct {
	Asked   int      `yaml:"asked"`
	Lost    int      `yaml:"lost"`
	P99     string   `yaml:"p99"`
	Windows []string `yaml:"windows,omitempty"`
}

type waterfallFound struct {
	Notice string   `yaml:"notice"`
	Node   string   `yaml:"node"`
	Queue  string   `yaml:"queue"`
	Steps  []string `yaml:"steps,flow"`
}

func TestCorpus(t *testing.T) {
	if *addFlag != "" {
		if err := addToCorpus(filepath.Join("..", *addFlag), *asFlag); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range corpusNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := yaml.Marshal(found(recordingOf(t, name).judged()))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("corpus", name+".yaml"), got)
		})
	}
}

func found(e Entry) judgement {
	j := judgement{
		Scenario: e.Scenario, Handler: e.Handler.Name, Outcome: e.Outcome, Rerun: verdict.NeedsRerun(e.Result),
		Verdicts: e.Verdicts, Losses: e.Losses, ApplicationLosses: e.ApplicationLosses,
	}
	if e.DNS != nil {
		j.DNS = map[string]dnsFound{"fresh": streamFound(e.DNS.Fresh), "fixed": streamFound(e.DNS.Fixed), "control": streamFound(e.DNS.Control)}
	}
	if e.timeline != nil {
		for _, w := range e.timeline.Waterfalls {
			j.Waterfalls = append(j.Waterfalls, fallFound(w))
		}
	}
	return j
}

func streamFound(s loss.Stream) dnsFound {
	f := dnsFound{Asked: s.Asked, Lost: s.Lost, P99: s.P99.String()}
	for _, w := range s.Windows {
		f.Windows = append(f.Windows, fmt.Sprintf("%s to %s, edges %s and %s, %d of %d, open %t", w.From, w.To, w.FromMargin, w.ToMargin, w.Lost, w.Asked, w.Open))
	}
	return f
}

func fallFound(w timeline.Waterfall) waterfallFound {
	f := waterfallFound{Notice: w.Notice, Node: w.Node, Queue: w.Queue.String()}
	for _, s := range w.Steps {
		when := "never"
		if s.Seen {
			when = s.After.String()
		}
		f.Steps = append(f.Steps, s.Name+" "+when)
	}
	return f
}

// addToCorpus packs an attempt's scenario and history.
func addToCorpus(dir, name string) error {
	h, err := history.Load(dir)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	scenarioFile := h.Meta.Scenario + ".yaml"
	for _, file := range []string{scenarioFile, history.EventsFile, history.QueriesFile, history.FlowsFile} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if errors.Is(err, os.ErrNotExist) && file == history.FlowsFile {
			continue
		}
		if err != nil {
			return err
		}
		files[file] = data
	}
	if len(h.Queries) > 0 {
		if err := thin(h, files, scenarioFile); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	gz, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(gz)
	for _, file := range sortedNames(files) {
		if err := tw.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(files[file])), ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		if _, err := tw.Write(files[file]); err != nil {
			return err
		}
	}
	if err := errors.Join(tw.Close(), gz.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(corpus, name+".tar.gz"), b.Bytes(), 0o644)
}

// thin keeps one query of *thinFlag of each stream, and the flows of those.
func thin(h history.History, files map[string][]byte, scenarioFile string) error {
	s, err := verdict.Scenarios().ParseRecorded(scenarioFile, files[scenarioFile])
	if err != nil {
		return err
	}
	s.Probe.Fresh, s.Probe.Fixed, s.Probe.Control = s.Probe.Fresh / *thinFlag, s.Probe.Fixed / *thinFlag, s.Probe.Control / *thinFlag
	if a := s.Probe.Application; a != nil {
		a.Fresh, a.Fixed, a.Control = a.Fresh / *thinFlag, a.Fixed / *thinFlag, a.Control / *thinFlag
	}
	if files[scenarioFile], err = yaml.Marshal(s); err != nil {
		return err
	}
	type stream struct {
		target, node string
		mode         history.Mode
	}
	type port struct {
		target, node string
		port         int
	}
	seen, used, kept := map[stream]int{}, map[port]bool{}, map[stream]int{}
	slices.SortStableFunc(h.Queries, func(a, b history.Query) int { return int(a.Intended - b.Intended) })
	var queries []history.Query
	for _, q := range h.Queries {
		of := stream{q.Target, q.Node, q.Mode}
		seen[of]++
		if seen[of]%*thinFlag == 1%*thinFlag {
			queries = append(queries, q)
			used[port{q.Target, q.Node, q.Port}] = true
			kept[of]++
		}
	}
	work, err := os.MkdirTemp("", "corpus")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	rec, err := history.Create(work, history.NewClock(), h.Meta)
	if err != nil {
		return err
	}
	for _, q := range queries {
		rec.Query(q)
	}
	var flows []history.Flow
	for _, f := range h.Flows {
		if used[port{cmp.Or(f.Target, history.Service), f.Node, f.Port}] {
			flows = append(flows, f)
		}
	}
	if err := errors.Join(rec.Flows(flows), rec.Close(false)); err != nil {
		return err
	}
	for _, file := range []string{history.QueriesFile, history.FlowsFile} {
		if files[file], err = os.ReadFile(filepath.Join(work, file)); err != nil {
			return err
		}
	}
	files[history.EventsFile], err = recount(h.Events, files[history.EventsFile], queries)
	return err
}

// recount corrects the numbers of each prober to the queries that are left.
func recount(events []history.Event, text []byte, queries []history.Query) ([]byte, error) {
	lines := bytes.Split(text, []byte("\n"))
	for i, e := range events {
		if e.Kind != history.ProberEnded {
			continue
		}
		asked, unsent := 0, 0
		for _, q := range queries {
			if q.Node != e.Node || q.Target == history.Echo {
				continue
			}
			asked++
			if q.Outcome == history.Unsent {
				unsent++
			}
		}
		was := lines[i+1] // below the line of meta
		for number, n := range map[history.Number]int{history.Asked: asked, history.UnsentQueries: unsent} {
			old := fmt.Appendf(nil, "%q:%v", number, e.Numbers[number])
			if !bytes.Contains(was, old) {
				return nil, fmt.Errorf("event %d has no %s", e.Seq, old)
			}
			was = bytes.Replace(was, old, fmt.Appendf(nil, "%q:%d", number, n), 1)
		}
		lines[i+1] = was
	}
	return bytes.Join(lines, []byte("\n")), nil
}

func sortedNames(files map[string][]byte) []string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	tr := tar.NewReader(gz)
	for {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(header.Name)), data, 0o644); err != nil {
			return err
		}
	}
}
