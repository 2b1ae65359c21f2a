package emulator

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// resultsFolder has one file for each emulator, as the last run with --record wrote it.
const resultsFolder = "results"

// results are what came out when an emulator was checked.
type results struct {
	Emulator string            `yaml:"emulator"` // name and version
	Ran      string            `yaml:"ran"`      // the day
	Failed   map[string]string `yaml:"failed"`   // why, by the name of the requirement
	Kept     []string          `yaml:"kept"`
}

func resultsOf(emulator string, report Report) results {
	r := results{Emulator: emulator, Ran: time.Now().UTC().Format(time.DateOnly), Failed: map[string]string{}}
	for _, spec := range report.SpecReports {
		if spec.LeafNodeType != types.NodeTypeIt || len(spec.Labels()) != 1 {
			continue
		}
		if name := spec.Labels()[0]; spec.State == types.SpecStatePassed {
			r.Kept = append(r.Kept, name)
		} else {
			r.Failed[name] = shortened(cmp.Or(spec.Failure.Message, spec.State.String()))
		}
	}
	slices.Sort(r.Kept)
	return r
}

// requestID is another one each time.
var requestID = regexp.MustCompile(`, RequestID: [0-9A-Za-z-]*`)

// shortened is a message in one line of a table.
func shortened(message string) string {
	const longest = 200
	words := requestID.ReplaceAllString(strings.Join(strings.Fields(message), " "), "")
	if runes := []rune(words); len(runes) > longest {
		words = string(runes[:longest]) + "…"
	}
	return words
}

func (r results) write(folder string) error {
	text, err := yaml.Dump(r, yaml.WithV3Defaults(), yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, r.Emulator+".yaml"), text, 0o644)
}

// table is that of docs/emulators.md.
func table(all []results) string {
	var b strings.Builder
	b.WriteString("| It must be so that |")
	for _, r := range all {
		fmt.Fprintf(&b, " %s |", r.Emulator)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for _, q := range requirements() {
		fmt.Fprintf(&b, "| %s (`%s`) |", q.title, q.name)
		for _, r := range all {
			outcome := "not played"
			if why, failed := r.Failed[q.name]; failed {
				outcome = "**no**: " + strings.ReplaceAll(why, "|", `\|`)
			} else if slices.Contains(r.Kept, q.name) {
				outcome = "yes"
			}
			fmt.Fprintf(&b, " %s |", outcome)
		}
		b.WriteString("\n")
	}
	b.WriteString("| kept |")
	for _, r := range all {
		fmt.Fprintf(&b, " %d of %d, %s |", len(r.Kept), len(r.Kept)+len(r.Failed), r.Ran)
	}
	return b.String() + "\n"
}

var updateFlag = flag.Bool("update", false, "write the table of docs/emulators.md")

// The page has what the runs wrote, and nothing else.
func TestTheTableIsWhatRunsWrote(t *testing.T) {
	const page, begin, end = "../../docs/emulators.md", "<!-- written by a test -->\n", "<!-- end -->\n"
	files, err := filepath.Glob(filepath.Join(resultsFolder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no results: %v", err)
	}
	var all []results
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r results
		if err := strict.Decode(file, text, &r); err != nil {
			t.Fatal(err)
		}
		for _, q := range requirements() {
			if _, failed := r.Failed[q.name]; !failed && !slices.Contains(r.Kept, q.name) {
				t.Errorf("%s has nothing on %s: run make emulator-test again with RECORD=%s", file, q.name, r.Emulator)
			}
		}
		all = append(all, r)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	want := before + begin + "\n" + table(all) + "\n" + end + after
	if *updateFlag {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("docs/emulators.md is not what the runs wrote: go test ./suites/emulator -update")
	}
}

func TestAMessageIsOneLineOfATable(t *testing.T) {
	if got := shortened("one\n  two\tthree, RequestID: 1-a, four"); got != "one two three, four" {
		t.Errorf("%q", got)
	}
	if got := shortened(strings.Repeat("é", 300)); len([]rune(got)) != 201 || !strings.HasSuffix(got, "…") {
		t.Errorf("%d runes: %s", len([]rune(got)), got)
	}
}
