package history

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// A figure that is written with one name and read by another would be 0. Event figures
// are named by constants everywhere, so that a misspelt one does not compile.
func TestFiguresOfEventsAreNamedByConstants(t *testing.T) {
	files := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "kind/images/") {
			return err
		}
		parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			for _, key := range figureNames(n) {
				if literal, ok := key.(*ast.BasicLit); ok {
					t.Errorf("%s: %s is no constant of package history", files.Position(literal.Pos()), literal.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// figureNames are the names by which a part of a program writes or reads figures of
// events. Those of verdicts, which are called v, have names of their own.
func figureNames(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.IndexExpr:
		of, ok := n.X.(*ast.SelectorExpr)
		if !ok || of.Sel.Name != "Numbers" {
			return nil
		}
		if owner, ok := of.X.(*ast.Ident); ok && owner.Name == "v" {
			return nil
		}
		return []ast.Expr{n.Index}
	case *ast.CompositeLit:
		name := ""
		switch of := n.Type.(type) {
		case *ast.Ident:
			name = of.Name
		case *ast.SelectorExpr:
			name = of.Sel.Name
		}
		if name != "Numbers" {
			return nil
		}
		var keys []ast.Expr
		for _, element := range n.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				keys = append(keys, pair.Key)
			}
		}
		return keys
	}
	return nil
}
