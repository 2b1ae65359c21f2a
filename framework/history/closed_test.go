package history_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"testing"
)

// What a kind of event means by its texts is known in this package alone: the compiler keeps other
// packages, and their tests, from writing an event by hand and from reading its texts.
func TestOthersUseConstructorsAndReaders(t *testing.T) {
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "source", nil)
	compiles := func(body string) error {
		file, err := parser.ParseFile(fset, "other.go", `package other
import "github.com/spotdrill/spotdrill/framework/history"
func _(e history.Event) { `+body+` }`, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&types.Config{Importer: imports}).Check("other", fset, []*ast.File{file}, nil)
		return err
	}
	for body, want := range map[string]bool{
		`e = history.NewNodeTainted("w1", "example.com/a", "NoSchedule", history.At(1)); _ = e.Setting()`: true,
		`e = history.Event{}`:                       true,
		`e.Node = e.Pod`:                            true,
		`e = history.Event{Kind: history.Deployed}`: false,
		`_ = []history.Event{{Node: "w1"}}`:         false,
		`e.Text = ""`:                               false,
		`_ = e.Text == ""`:                          false,
		`_ = e.Key == ""`:                           false,
		`e.Reason = ""`:                             false,
	} {
		if err := compiles(body); (err == nil) != want {
			t.Errorf("%s compiles: %v, want %t", body, err, want)
		}
	}
}
