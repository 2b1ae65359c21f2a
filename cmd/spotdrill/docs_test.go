package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/loss"
	"github.com/spotdrill/spotdrill/scenarios"
)

// command is one that a page documents.
type command struct {
	where string // FILE:LINE
	words []string
	named bool // within a sentence, where a command's name alone is no command
}

var (
	inline = regexp.MustCompile("`((?:bin/)?spotdrill|make)( [^`]+)`")
	words  = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`)
)

// commandsOf are the commands of a Markdown page: lines of its code blocks, and code
// within its text.
func commandsOf(file, text string) []command {
	var found []command
	add := func(line int, text string, named bool) {
		// What follows on a pipe, a redirection or a comment is the shell's.
		text = regexp.MustCompile(`\s(\||>|&&|;|#).*`).ReplaceAllString(text, "")
		parts := words.FindAllString(strings.TrimSpace(text), -1)
		for len(parts) > 0 && (strings.Contains(parts[0], "=") || parts[0] == "sudo") {
			parts = parts[1:]
		}
		if len(parts) == 0 {
			return
		}
		parts[0] = strings.TrimPrefix(parts[0], "bin/")
		for i := range parts {
			parts[i] = strings.Trim(parts[i], `'"`)
		}
		if parts[0] == "spotdrill" || parts[0] == "make" {
			found = append(found, command{fmt.Sprintf("%s:%d", file, line), parts, named})
		}
	}
	block, joined := false, ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			block = !block
		case block:
			if part, more := strings.CutSuffix(line, `\`); more {
				joined += part
				continue
			}
			add(i+1, strings.TrimPrefix(strings.TrimSpace(joined+line), "- run: "), false)
			joined = ""
		default:
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				add(i+1, m[1]+m[2], true)
			}
		}
	}
	return found
}

// wrong describes what is wrong with a command, or "".
func (c command) wrong(t *testing.T) string {
	if c.words[0] == "make" {
		return wrongForMake(t, c.words[1:])
	}
	cmd, rest, err := newRoot().Find(c.words[1:])
	if err != nil {
		return err.Error()
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	args := cmd.Flags().Args()
	if err := cmd.ValidateArgs(args); err != nil && (!c.named || len(rest) > 0) {
		return err.Error()
	}
	known, plays := map[string]func(string) bool{"run": scenarios.InCatalogue, "explain": scenarios.InCatalogue, "live": scenarios.IsLive}[cmd.Name()]
	if plays {
		for _, name := range args {
			if !strings.ContainsAny(name, "/.") && strings.ToLower(name) == name && !known(name) {
				return fmt.Sprintf("there is no scenario %q", name)
			}
		}
	}
	return ""
}

// makefile has the targets and variables of the Makefile.
func makefile(t *testing.T) (targets, variables map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets, variables = map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`^([a-z-]+):`).FindStringSubmatch(line); m != nil {
			targets[m[1]] = true
		}
		if m := regexp.MustCompile(`^([A-Z_]+) \?=`).FindStringSubmatch(line); m != nil {
			variables[m[1]] = true
		}
	}
	return targets, variables
}

func wrongForMake(t *testing.T, args []string) string {
	targets, variables := makefile(t)
	for _, arg := range args {
		name, _, assigned := strings.Cut(arg, "=")
		known, of := variables, "variable"
		if !assigned {
			known, of = targets, "target"
		}
		if !known[name] {
			return fmt.Sprintf("the Makefile has no %s %q; it has %s", of, name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return ""
}

func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	workflows, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return append(append(found, "../../README.md"), workflows...)
}

// Whoever copies a command from a page gives one that exists.
func TestCommandsInTheDocsExist(t *testing.T) {
	total := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(page, ".yaml") {
			text = []byte("```\n" + string(text))
		}
		for _, c := range commandsOf(page, string(text)) {
			total++
			if why := c.wrong(t); why != "" {
				t.Errorf("%s: %s: %s", c.where, strings.Join(c.words, " "), why)
			}
		}
	}
	if total < 40 {
		t.Errorf("only %d commands were found: the pages are no longer read as they are written", total)
	}
}

func TestExamplesOfCommandsExist(t *testing.T) {
	walk(newRoot(), func(cmd *cobra.Command) {
		if strings.HasPrefix(cmd.CommandPath(), "spotdrill completion") {
			return
		}
		for _, c := range commandsOf(cmd.CommandPath()+" --help", "```\n"+cmd.Example+"\n```") {
			if why := c.wrong(t); why != "" {
				t.Errorf("%s: %s: %s", c.where, strings.Join(c.words, " "), why)
			}
		}
	})
}

// The test itself sees what it is there to see.
func TestCommandsThatDoNotExistAreSeen(t *testing.T) {
	page := "Give `make confromance` or `bin/spotdrill jugde DIR`.\n" +
		"```sh\nmake conformance SETS=full   # all\nspotdrill run --sett full | tee log\nspotdrill run spot-notice\n" +
		"spotdrill compare \\\n  --against\nAWS_REGION=eu-west-1 spotdrill send spot\nspotdrill run a.yaml --keep && echo fine\n```\n"
	var got []string
	for _, c := range commandsOf("page", page) {
		got = append(got, c.where+" "+c.wrong(t))
	}
	want := []string{
		`page:1 the Makefile has no target "confromance"; `, `page:1 unknown command "jugde" for "spotdrill"`,
		`page:3 the Makefile has no variable "SETS"; `, "page:4 unknown flag: --sett", `page:5 there is no scenario "spot-notice"`,
		"page:7 flag needs an argument: --against", `page:8 "spot" is not known; did you mean "spot-interruption"?`, "page:9 ",
	}
	if len(got) != len(want) {
		t.Fatalf("found %q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinksInTheDocsLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil && strings.HasSuffix(page, ".md") {
				t.Errorf("%s leads to %s, which is not there", page, m[1])
			}
		}
	}
}

// The page about incidents names drills that exist.
func TestIncidentsAreShownByDrills(t *testing.T) {
	text, err := os.ReadFile("../../docs/incidents.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(string(text)) {
		column := strings.Split(line, "|")
		if len(column) != 6 {
			continue // no row of a table
		}
		for _, m := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(column[2], -1) {
			if strings.HasPrefix(m[1], "-") {
				continue
			}
			shown++
			if !scenarios.InCatalogue(m[1]) {
				t.Errorf("docs/incidents.md: there is no scenario %s", m[1])
			}
		}
	}
	if shown < 30 {
		t.Errorf("only %d drills were found: the page is no longer read as it is written", shown)
	}
}

var heading = regexp.MustCompile("(?m)^### `(.*)`$")

// Whoever searches the page for what is on the screen finds it.
func TestTroubleshootingQuotesWhatIsSaid(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	err = filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		of := strings.HasSuffix(path, ".sh") || strings.HasSuffix(path, ".go") &&
			(!strings.HasSuffix(path, "_test.go") || strings.Contains(filepath.ToSlash(path), "/suites/"))
		if err != nil || entry.IsDir() || !of {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	quotes := heading.FindAllStringSubmatch(string(page), -1)
	if len(quotes) < 20 {
		t.Errorf("only %d headings quote a message", len(quotes))
	}
	for _, quote := range quotes {
		for part := range strings.SplitSeq(quote[1], "…") {
			if !strings.Contains(source.String(), strings.TrimSpace(part)) {
				t.Errorf("nothing shows %q, of %q", strings.TrimSpace(part), quote[1])
			}
		}
	}
}

var causeRow = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ")

func TestEveryCauseOfALostQueryIsInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/measuring.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []loss.Cause
	for _, row := range causeRow.FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, loss.Cause(row[1]))
	}
	if !slices.Equal(documented, loss.Causes()) {
		t.Errorf("docs/measuring.md has  %v\nthe judge has %v", documented, loss.Causes())
	}
}
