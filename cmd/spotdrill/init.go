package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spotdrill/spotdrill/docs/examples"
	"github.com/spotdrill/spotdrill/scenarios"
)

func newInitCommand() *cobra.Command {
	return group("init", "Write a handler or a scenario of your own, to begin with",
		&cobra.Command{
			Use:   "handler FOLDER",
			Short: "Write a folder with a handler that can be drilled as it is",
			Args:  cobra.ExactArgs(1),
			RunE:  func(cmd *cobra.Command, args []string) error { return initHandler(cmd, args[0]) },
		},
		&cobra.Command{
			Use:   "scenario NAME",
			Short: "Write a scenario that can be played as it is, NAME.yaml",
			Args:  cobra.ExactArgs(1),
			RunE:  func(cmd *cobra.Command, args []string) error { return initScenario(cmd, args[0]) },
		})
}

func initHandler(cmd *cobra.Command, folder string) error {
	path, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("find the folder %s: %w", folder, err)
	}
	name := filepath.Base(path)
	if err := validName(name); err != nil {
		return err
	}
	written, err := examples.WriteHandler(folder, name)
	for _, file := range written {
		printf(cmd.OutOrStdout(), "%s\n", file)
	}
	if err != nil {
		return notOver(err)
	}
	description := asPath(filepath.Join(folder, "handler.yaml"))
	next(cmd, "README.md in the folder shows what to change", "spotdrill run --handler "+description+" --dry-run", "spotdrill run --handler "+description+" spot-notice-drains-node")
	return nil
}

func initScenario(cmd *cobra.Command, file string) error {
	file = strings.TrimSuffix(file, ".yaml") + ".yaml"
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	if err := validName(name); err != nil {
		return err
	}
	if scenarios.InCatalogue(name) || scenarios.IsLive(name) {
		return usage("spotdrill has a scenario %s: choose another name; spotdrill explain %s shows that one", name, name)
	}
	if err := examples.WriteScenario(file, name); err != nil {
		return notOver(err)
	}
	printf(cmd.OutOrStdout(), "%s\n", file)
	shown := asPath(file)
	next(cmd, "the comments show what to change", "spotdrill explain "+shown, "spotdrill run "+shown)
	return nil
}

// validName returns an error for a name that Kubernetes or a scenario's file cannot have.
func validName(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return usage("%q cannot be a name: want lower-case letters, digits and -, such as my-handler, and at most %d of them", name, validation.DNS1123LabelMaxLength)
	}
	return nil
}

// asPath is a path that no command takes for a name.
func asPath(file string) string {
	if file = filepath.ToSlash(filepath.Clean(file)); filepath.IsAbs(file) || strings.HasPrefix(file, "../") {
		return file
	}
	return "./" + file
}

// notOver makes an error of use of a file that is there already, and of a folder that is not.
func notOver(err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return usage("%w; nothing is overwritten: choose another name", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return usage("%w; name a place in a folder that exists and can be written", err)
	}
	return err
}

// next prints what to do with what was written.
func next(cmd *cobra.Command, words string, commands ...string) {
	printf(cmd.ErrOrStderr(), "\n%s. Next:\n", words)
	for _, c := range commands {
		printf(cmd.ErrOrStderr(), "  %s\n", c)
	}
}
