package recommend

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestRulesAreWhole(t *testing.T) {
	page, err := os.ReadFile("../../docs/advice.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range Rules() {
		if r.Why == "" || r.Fix == "" || !strings.HasPrefix(r.Source, "https://") {
			t.Errorf("%s lacks a part: %+v", name, r)
		}
		// That Karpenter cannot be read is no rule of its own.
		if name != "karpenter" && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/advice.md lacks %s", name)
		}
	}
}

func TestRulesOfTheFileAreThoseOfTheCode(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:breaks\(|unknown\(|rule = )"([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			used[m[1]] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(Rules())); !slices.Equal(got, want) {
		t.Errorf("the code has %v, and the file %v", got, want)
	}
}
