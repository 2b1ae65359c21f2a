package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each variable of the Makefile is the flag of the same name of the program that a target runs: SET is
// --set. This is checked on the commands that make would run if each variable were its own name in @.
func TestEachVariableOfTheMakefileIsAFlag(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--dry-run", "--no-print-directory", "-C", "../.."}
	variables := wordsOf(makefile, `(?m)^([A-Z_]+) \?=`)
	for _, name := range variables {
		args = append(args, name+"=@"+name+"@")
	}
	commands, err := exec.CommandContext(t.Context(), "make", append(args, wordsOf(makefile, `(?m)^\.PHONY: (.*)$`)...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	passed := passedVariables(string(commands))
	if len(passed) < 20 {
		t.Fatalf("make passes only %v", passed)
	}
	used := map[string]bool{}
	for _, p := range passed {
		used[p.variable] = true
		if want := strings.ReplaceAll(strings.ToLower(p.variable), "_", "-"); strings.TrimPrefix(p.flag, "ginkgo.") != want {
			t.Errorf("%s is --%s of %s: give both the same name", p.variable, p.flag, p.program)
		}
		if !p.exists(t) {
			t.Errorf("%s has no flag --%s, which %s is", p.program, p.flag, p.variable)
		}
	}
	for _, name := range variables {
		if !used[name] {
			t.Errorf("%s is no flag of a program that make runs", name)
		}
	}
}

func TestAVariableThatIsNoFlagIsFound(t *testing.T) {
	got := passedVariables("@BINARY@ up --proxy-mode=@MODE@\nbin/mutants.test --drill \\\n\t\"--mutants=@MUTANTS@\"\nbin/truth bench -binary=@BINARY@\ngo build -overlay @OVERLAY@ -o @BINARY@ ./cmd/spotdrill\n")
	want := []passedVariable{
		{"spotdrill up", "proxy-mode", "MODE"}, {"suites/mutants", "mutants", "MUTANTS"}, {"suites/truth", "binary", "BINARY"}, {"go", "overlay", "OVERLAY"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for p, want := range map[passedVariable]bool{
		{"spotdrill up", "proxy-mode", ""}: true, {"spotdrill up", "mode", ""}: false,
		{"suites/conformance", "handler-image", ""}: true, {"suites/conformance", "image", ""}: false, {"suites/conformance", "ginkgo.timeout", ""}: true,
	} {
		if p.exists(t) != want {
			t.Errorf("%s has --%s: %t, want %t", p.program, p.flag, !want, want)
		}
	}
}

// passedVariable is a variable that make passes to a program as a flag. A program is a command of
// spotdrill, the folder of a suite, or go.
type passedVariable struct{ program, flag, variable string }

var (
	programOf = regexp.MustCompile(`@?BINARY@ (\w+)|bin/(\w+)\.test|bin/(truth) |\b(go) build`)
	flagOf    = regexp.MustCompile(`--?([a-z.-]{2,})[= ]@([A-Z_]+)@`)
)

// passedVariables reads them from commands; a line may go on after a backslash.
func passedVariables(commands string) []passedVariable {
	var passed []passedVariable
	for line := range strings.Lines(strings.ReplaceAll(commands, "\\\n", " ")) {
		program := programOf.FindStringSubmatch(line)
		for _, flag := range flagOf.FindAllStringSubmatch(line, -1) {
			p := passedVariable{"nothing", flag[1], flag[2]}
			switch {
			case program == nil:
			case program[1] != "":
				p.program = "spotdrill " + program[1]
			case program[4] != "":
				p.program = program[4]
			default:
				p.program = "suites/" + program[2] + program[3]
			}
			passed = append(passed, p)
		}
	}
	return passed
}

// exists reports whether the program has the flag. The flags of Ginkgo and go are theirs.
func (p passedVariable) exists(t *testing.T) bool {
	t.Helper()
	if p.program == "go" || strings.HasPrefix(p.flag, "ginkgo.") {
		return true
	}
	if command, found := strings.CutPrefix(p.program, "spotdrill "); found {
		cmd, _, err := newRoot().Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		return cmd.Flags().Lookup(p.flag) != nil
	}
	for _, folder := range []string{p.program, "suites/flags"} {
		files, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(wordsOf(source, `\b(?:flag|set)\.\w+\("([a-z-]+)"`), p.flag) {
				return true
			}
		}
	}
	return false
}

// wordsOf are the words of the first groups of a pattern's matches.
func wordsOf(text []byte, pattern string) []string {
	var words []string
	for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		words = append(words, strings.Fields(string(match[1]))...)
	}
	return words
}
