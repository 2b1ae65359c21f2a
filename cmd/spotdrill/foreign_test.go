package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const savedDrill = "dns-lost-at-exit"

// evil clears a terminal, turns the writing around, and is an error to a CI job.
const evil = "\x1b[2J\u202e\n::error::taken over\n##[error]taken over"

// obeyed is what a terminal or a CI log would obey.
var obeyed = regexp.MustCompile(`(?m)^\s*::|##\[`)

// What others have written, in a cluster, a file or an argument, is harmless whatever command prints it.
func TestTextOfOthersIsHarmlessInEveryCommand(t *testing.T) {
	dir := t.TempDir()
	escaped := `"\e[2J\u202E\n::error::taken over\n##[error]taken over"` // as YAML has it
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	// with is a file with a field that has the evil text.
	with := func(from, to, field string) string {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		changed := regexp.MustCompile(`(?m)^( *`+field+`): .*$`).ReplaceAllString(string(text), "$1: "+strings.ReplaceAll(escaped, "$", "$$"))
		if changed == string(text) {
			t.Fatalf("%s has no %s", from, field)
		}
		return write(to, changed)
	}
	run := t.TempDir()
	if err := os.CopyFS(run, os.DirFS(savedRun)); err != nil {
		t.Fatal(err)
	}
	history := filepath.Join(run, savedDrill, "attempt-2", "history.jsonl")
	text, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`"(note|reason|owner)":"`).ReplaceAll(text, []byte(`"$1":"\u001b[2J\u202e\n::error::taken over\n##[error]`))
	if err := os.WriteFile(history, text, 0o600); err != nil {
		t.Fatal(err)
	}
	handler := filepath.Join(dir, "handler")
	if err := os.CopyFS(handler, os.DirFS("../../docs/examples/my-handler")); err != nil {
		t.Fatal(err)
	}
	scenario := with("../../docs/examples/my-scenario.yaml", "my-scenario.yaml", "title")
	report := with(savedReport, "report.yaml", "got")
	schema := write("schema.json", `{"type": "object", "properties": {"\u001b[2J\n::error::x": {"type": "string"}}}`)
	other := write("other.json", `{"type": "object", "properties": {"\u001b[2J\n::error::y": {"type": "string"}}}`)
	for name, args := range map[string][]string{
		"judge":              {"judge", run},
		"judge, no folder":   {"judge", evil},
		"report html":        {"report", "html", run},
		"report verify":      {"report", "verify", report},
		"report merge":       {"report", "merge", "--out", dir, run, evil},
		"compare":            {"compare", report, report},
		"compare, nights":    {"compare", report, "--against", report},
		"explain":            {"explain", scenario},
		"list":               {"list", "--profile", evil},
		"run":                {"run", "--dry-run", scenario},
		"run, its handler":   {"run", "--dry-run", "--handler", with(filepath.Join(handler, "handler.yaml"), "handler/handler.yaml", "version")},
		"run, resumed":       {"run", "--dry-run", "--resume", run},
		"recommend":          {"recommend", "--kubeconfig", foreignCluster(t, "5s\x1b[2J")},
		"recommend, refused": {"recommend", "--kubeconfig", foreignCluster(t, "5s\u202e")},
		"recommend, values":  {"recommend", "--kubeconfig", foreignCluster(t, "30s"), "--add-on-values", write("values.yaml", "corefile: "+escaped)},
		"addon diff":         {"addon", "diff", "--schema", schema, "--schema", other},
		"addon manifest":     {"addon", "diff", "--manifest", write("manifest.yaml", "kind: "+escaped)},
		"probe convert":      {"probe", "convert", report, filepath.Join(dir, "q.csv")},
		"sweep":              {"sweep", evil},
		"send":               {"send", "spot-interruption", "--instance", evil},
		"live":               {"live", "coredns-evicted", "--dry-run", "--kubeconfig", foreignCluster(t, "5s"), "--context", evil},
		"observe":            {"observe", "--kubeconfig", evil, "--for", "1s"},
		"restore":            {"restore", "--journal", with(savedReport, "journal/a.jsonl", "got")},
		"init":               {"init", "handler", filepath.Join(dir, evil)},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, _ := spotdrill(t, args...)
			printed := stdout + "\n" + stderr
			if len(printed) < 10 {
				t.Fatalf("it printed nothing: %q", printed)
			}
			if at := strings.IndexFunc(printed, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }); at >= 0 {
				t.Errorf("a terminal obeys %q", printed[at:min(len(printed), at+60)])
			}
			if found := obeyed.FindString(printed); found != "" {
				t.Errorf("a CI log obeys %q in\n%s", found, printed)
			}
		})
	}
}

// Each of them makes what it prints harmless, is data or a log in JSON, or only asks about the output.
var harmless = []string{"printf", "shown", "writeJSON", "WriteGitHub", "NewConsole", "Rewriting", "confirmed", "NewJSONHandler", "print", "Serve", "runOrWait", "options", "unread"}

// A new command cannot print past them.
func TestNothingPrintsPastTheOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, arg := range call.Args {
				if !output(arg) {
					continue
				}
				seen++
				if !slices.Contains(harmless, called(call)) {
					t.Errorf("%s: %s writes to the output of the command: use printf or shown", set.Position(call.Pos()), called(call))
				}
			}
			return true
		})
	}
	if seen < 30 {
		t.Errorf("only %d writes were found", seen)
	}
}

// output reports whether an expression is an output of a command.
func output(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		return slices.Contains([]string{"OutOrStdout", "ErrOrStderr"}, called(e))
	case *ast.SelectorExpr:
		return slices.Contains([]string{"Stdout", "Stderr"}, e.Sel.Name)
	}
	return false
}

// called is the name of the function of a call.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
