package defects

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A mutant that does not compile ends make mutants before its first drill.
func TestEveryMutantCompiles(t *testing.T) {
	mutants, err := Load(list)
	if err != nil {
		t.Fatal(err)
	}
	// The second is of what mutants import and the handler does not.
	packages, imports := listed(t, "./framework/handler/builtin", "github.com/aws/aws-sdk-go-v2/service/ec2")
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			edited, err := m.apply(root)
			if err != nil {
				t.Fatal(err)
			}
			dirs := map[string]bool{}
			for name := range edited {
				dirs[filepath.Dir(name)] = true
			}
			for dir := range dirs {
				files, known := packages[dir]
				if !known {
					t.Fatalf("it changes %s, which this test does not compile", dir)
				}
				if err := compiles(dir, files, edited, imports); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// listed returns the files of the packages, by their folders, and an importer of what they
// import, which go list compiles.
func listed(t *testing.T, patterns ...string) (map[string][]string, types.Importer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,DepOnly"}, patterns...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages that mutants change: %v", err)
	}
	files, exports := map[string][]string{}, map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
			DepOnly                 bool
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly {
			continue
		}
		if dir, err := filepath.Rel(absolute(t, root), p.Dir); err == nil {
			files[dir] = p.GoFiles
		}
	}
	return files, importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// compiles type-checks a package with the edited files in place of its own.
func compiles(dir string, names []string, edited map[string]string, imports types.Importer) error {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		var source any
		if text, ok := edited[filepath.Join(dir, name)]; ok {
			source = text
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, dir, name), source, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		files = append(files, file)
	}
	var errs []error
	conf := types.Config{Importer: imports, Error: func(err error) { errs = append(errs, err) }}
	_, _ = conf.Check(dir, fset, files, nil) // errs has its errors
	return errors.Join(errs...)
}
