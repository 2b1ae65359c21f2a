package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// A package without a rule could import anything, and nobody would notice.
func TestEveryPackageHasAnImportRule(t *testing.T) {
	rules := importRules(t)
	packages := goPackages(t)
	if len(packages) < 20 {
		t.Fatalf("found only the packages %q", packages)
	}
	for _, folder := range packages {
		if !named(rules, folder) {
			t.Errorf("%s is in no depguard rule of .golangci.yml: add it to one, or write one", folder)
		}
	}
}

func TestAPackageWithoutAnImportRuleIsFound(t *testing.T) {
	rules := []string{"**/framework/run/*.go", "**/suites/**/*.go", "!**/docs/*.go"}
	for folder, want := range map[string]bool{
		"framework/run": true, "framework/run/manifests": false, "framework": false,
		"suites/truth": true, "suites/mutants/defects": true, "docs": false,
	} {
		if got := named(rules, folder); got != want {
			t.Errorf("%s has a rule: %t, want %t", folder, got, want)
		}
	}
}

// named reports whether a rule's patterns name the folder: by itself, or a folder
// above it with everything below.
func named(patterns []string, folder string) bool {
	wanted := map[string]bool{"**/" + folder + "/*.go": true}
	for above := path.Dir(folder); above != "."; above = path.Dir(above) {
		wanted["**/"+above+"/**/*.go"] = true
	}
	for _, pattern := range patterns {
		if wanted[pattern] {
			return true
		}
	}
	return false
}

// importRules returns the file patterns of all depguard rules.
func importRules(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct{ Files []string }
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for _, rule := range config.Linters.Settings.Depguard.Rules {
		patterns = append(patterns, rule.Files...)
	}
	return patterns
}

// goPackages returns the folders of this module that have Go files; a folder with a
// go.mod of its own, or one that is stored under another name, is another module.
func goPackages(t *testing.T) []string {
	t.Helper()
	const root = "../.."
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			modules, err := filepath.Glob(filepath.Join(file, "go.mod*"))
			if name := entry.Name(); err == nil && file != root && (len(modules) > 0 || strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if strings.HasSuffix(file, ".go") {
			found[filepath.ToSlash(folder)] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found))
}
