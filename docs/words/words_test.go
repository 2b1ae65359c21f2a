// Package words_test checks that code, docs, help and errors keep to the glossary of CONTRIBUTING.md.
package words_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/strict"
)

func TestTheRepositoryKeepsToTheGlossary(t *testing.T) {
	rules := glossary(string(read(t, "CONTRIBUTING.md")))
	if len(rules) < 15 {
		t.Fatalf("the glossary has only %d rows", len(rules))
	}
	var exceptions []*exception
	if err := strict.Decode("exceptions.yaml", read(t, "docs/words/exceptions.yaml"), &exceptions); err != nil {
		t.Fatal(err)
	}
	for _, file := range files(t) {
		if slices.ContainsFunc(exceptions, func(e *exception) bool { return e.covers(file) }) {
			continue
		}
		for _, p := range passages(t, file, read(t, file)) {
			for _, f := range findings(rules, p) {
				if !slices.ContainsFunc(exceptions, func(e *exception) bool { return e.allows(f) }) {
					t.Error(f)
				}
			}
		}
	}
	for _, e := range exceptions {
		switch {
		case e.Reason == "":
			t.Errorf("exceptions.yaml: %s %q has no reason", e.File, e.Text)
		case !e.used:
			t.Errorf("exceptions.yaml: %s %q is no longer needed", e.File, e.Text)
		}
	}
}

func TestTheGlossary(t *testing.T) {
	rules := glossary("| Do not write | Write |\n|---|---|\n| `anew` | again |\n| `take … away` (a node) | reclaim |\n\n| Word | Meaning |\n|---|---|\n| `drill` | one scenario |\n")
	if len(rules) != 2 {
		t.Fatalf("the glossary has %d rows, want 2", len(rules))
	}
	for text, want := range map[string]string{
		"// It reads them anew,\n// again":     "f.go:7: \"anew\": write again",
		"one\n\t// they take\n// the one away": "f.go:8: \"take\\n// the one away\": write reclaim",
		"renewed, or a takeaway":               "",
		"take it. He went away":                "",
		"// anew is a function of x.anew":      "",
		"read-anew, `anew`\n  anew: a key":     "",
	} {
		got := ""
		for _, f := range findings(rules, passage{"f.go", 7, text}) {
			got, _, _ = strings.Cut(f.String(), "\n\t")
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestOnlyProseIsRead(t *testing.T) {
	source := "package p // a\n\nimport \"b\"\n\n// c d\n// e\nvar wants = `f`\n\ntype t struct {\n\tg int `json:\"h\"`\n}\n"
	got := ""
	for _, p := range passages(t, "f.go", []byte(source)) {
		got += fmt.Sprintf("%d %s; ", p.line, p.text)
	}
	if want := "1 // a; 5 // c d\n// e; 7 `f`; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// rule is a row of the glossary: what not to write, and what to write.
type rule struct {
	words  *regexp.Regexp
	better string
}

// glossary reads the table of what not to write. The words in code font are the rule; … stands for up to
// three words. Words with a capital are matched as they are written.
func glossary(page string) []rule {
	_, table, _ := strings.Cut(page, "| Do not write | Write |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var rules []rule
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		var words []string
		for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			pattern := regexp.QuoteMeta(word[1])
			pattern = strings.ReplaceAll(pattern, " … ", ` (?:[^\s.;:()]+ ){1,3}`)
			pattern = strings.ReplaceAll(pattern, " ", `[\s/#*]+`)
			if word[1] == strings.ToLower(word[1]) {
				pattern = "(?i:" + pattern + ")"
			}
			words = append(words, pattern)
		}
		if words == nil {
			continue
		}
		rules = append(rules, rule{regexp.MustCompile(`\b(?:` + strings.Join(words, "|") + `)\b`), strings.TrimSpace(cells[2])})
	}
	return rules
}

// exception is a file, or a text of a file, that may have words of the glossary.
type exception struct {
	File   string `yaml:"file"` // a pattern of path.Match; a folder stands for what is in it
	Text   string `yaml:"text"` // around the words; without it, the file is not read
	Reason string `yaml:"reason"`

	used bool
}

// covers reports whether the whole file is an exception.
func (e *exception) covers(file string) bool {
	covers := e.Text == "" && e.matches(file)
	e.used = e.used || covers
	return covers
}

// allows reports whether the exception has the text of a finding.
func (e *exception) allows(f finding) bool {
	allows := e.Text != "" && e.matches(f.file) && strings.Contains(oneLine(f.context()), e.Text)
	e.used = e.used || allows
	return allows
}

func (e *exception) matches(file string) bool {
	for ; file != "."; file = path.Dir(file) {
		if ok, _ := path.Match(e.File, file); ok {
			return true
		}
	}
	return false
}

// passage is a comment, a string, or a whole file that is not Go.
type passage struct {
	file string
	line int
	text string
}

// passages are the prose of a file: of Go, its comments and strings.
func passages(t *testing.T, file string, content []byte) []passage {
	t.Helper()
	if path.Ext(file) != ".go" {
		return []passage{{file, 1, string(content)}}
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, content, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var all []passage
	add := func(n ast.Node) {
		from, to := set.Position(n.Pos()), set.Position(n.End())
		all = append(all, passage{file, from.Line, string(content[from.Offset:to.Offset])})
	}
	for _, group := range parsed.Comments {
		add(group)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				add(n)
			}
		}
		return true
	})
	return all
}

// finding is a place that breaks a rule.
type finding struct {
	passage
	rule
	from, to int // in the text
}

func findings(rules []rule, p passage) []finding {
	var all []finding
	for _, r := range rules {
		for _, at := range r.words.FindAllStringIndex(p.text, -1) {
			if isName(p.text, at[0], at[1]) {
				continue
			}
			all = append(all, finding{p, r, at[0], at[1]})
		}
	}
	return all
}

// isName reports whether a word of a text is a name or a part of one: of a scenario, a field, a key, a
// value, or of what a doc comment is about.
func isName(text string, from, to int) bool {
	var before, after byte
	if from > 0 {
		before = text[from-1]
	}
	if to < len(text) {
		after = text[to]
	}
	line := text[strings.LastIndexByte(text[:from], '\n')+1 : from]
	return strings.IndexByte("-_.$", before) >= 0 || strings.IndexByte("-_(", after) >= 0 ||
		before == after && (before == '`' || before == '"') ||
		after == ':' && strings.Trim(line, " -") == "" ||
		text[:from] == "// " && !strings.ContainsAny(text[from:to], " \n")
}

// context is the text around the words.
func (f finding) context() string {
	return strings.ToValidUTF8(f.text[max(0, f.from-80):min(len(f.text), f.to+80)], "")
}

func (f finding) String() string {
	line := f.line + strings.Count(f.text[:f.from], "\n")
	return fmt.Sprintf("%s:%d: %q: write %s\n\t%s", f.file, line, f.text[f.from:f.to], f.better, oneLine(f.context()))
}

// oneLine is a text without line breaks and the marks of comments.
func oneLine(text string) string {
	return regexp.MustCompile(`\s*\n[\s/#*]*`).ReplaceAllString(text, " ")
}

const root = "../.."

// files are the files of the repository that people write prose in.
func files(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	listed, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the files: %v", err)
	}
	var prose []string
	for file := range strings.Lines(string(listed)) {
		file = strings.TrimSuffix(file, "\n")
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			continue // it is deleted, but not committed
		}
		switch path.Ext(file) {
		case ".go", ".md", ".txt", ".yaml", ".yml", ".sh", ".mjs", ".js", ".css", ".html", ".tmpl", "":
			prose = append(prose, file)
		}
	}
	if len(prose) < 500 {
		t.Fatalf("found only %d files", len(prose))
	}
	return prose
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
