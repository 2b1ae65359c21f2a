package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/nodeimages"
	"github.com/spotdrill/spotdrill/kind"
)

// version identifies a build and the images that it uses.
type version struct {
	Version    string `json:"version"`            // of the module, or "(devel)"
	Build      string `json:"build,omitempty"`    // digest of this program, as in reports
	Revision   string `json:"revision,omitempty"` // of git, if the build knew it
	Modified   bool   `json:"modified,omitempty"` // beyond that revision
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	NodeImage  string `json:"nodeImage"` // pulled, or built with the same content
	LocalStack string `json:"localStack"`
}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := thisVersion()
			return show(cmd, asJSON, v, v.WriteText)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// WriteText writes a table, without what is not known of this build.
func (v version) WriteText(w io.Writer) error {
	revision := v.Revision
	if v.Modified {
		revision += ", modified"
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"spotdrill", v.Version}, {"build", v.Build}, {"revision", revision}, {"go", v.Go + " " + v.Platform}, {"node image", v.NodeImage}, {"LocalStack", v.LocalStack},
	} {
		if row[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
		}
	}
	return table.Flush()
}

func thisVersion() version {
	v := version{
		Version: moduleVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		NodeImage: kind.PublicNodeImage(), LocalStack: kind.PublicLocalStackImage(),
	}
	if self, err := os.Executable(); err == nil {
		v.Build, _ = nodeimages.BinaryDigest(self) // empty if it cannot be read
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
