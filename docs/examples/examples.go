// Package examples has the files that spotdrill init writes: a handler and a scenario that can be
// drilled as they are.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The example files. What is called Handler or Scenario in them is renamed by Write.
const (
	Handler  = "my-handler"
	Scenario = "my-scenario"
)

//go:embed my-handler/handler.yaml my-handler/manifests.yaml my-handler/main.go my-handler/build.sh my-handler/README.md my-scenario.yaml
var files embed.FS

// WriteHandler writes the example of a handler, under another name, into a new folder, and returns
// the paths of its files. A folder that is there already is an error.
func WriteHandler(folder, name string) ([]string, error) {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the handler's: %w", err)
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the handler's folder: %w", err)
	}
	entries, err := fs.ReadDir(files, Handler)
	if err != nil {
		return nil, fmt.Errorf("list the example: %w", err)
	}
	var written []string
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if err := write(path, Handler+"/"+e.Name(), Handler, name); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}

// WriteScenario writes the example of a scenario, under another name. A file that is there already is
// an error.
func WriteScenario(path, name string) error {
	return write(path, Scenario+".yaml", Scenario, name)
}

func write(path, example, old, name string) error {
	text, err := files.ReadFile(example)
	if err != nil {
		return fmt.Errorf("read the example: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the example: %w", err)
	}
	defer file.Close()
	if _, err := file.WriteString(strings.ReplaceAll(string(text), old, name)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return file.Close()
}
