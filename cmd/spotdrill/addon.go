package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spotdrill/spotdrill/framework/addon"
	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/history"
)

func newAddonCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "addon", Short: "Look at an add-on of Amazon EKS before it is upgraded"}
	cmd.AddCommand(newAddonDiffCommand())
	return cmd
}

// addonOptions are what is compared.
type addonOptions struct {
	clusterAccess
	manifest, manager string
	schemas           []string
	values            string
	json              bool
}

func newAddonDiffCommand() *cobra.Command {
	var o addonOptions
	cmd := &cobra.Command{
		Use:   "diff (--manifest FILE | --schema FILE --schema FILE)",
		Short: "Report which values of yours the upgrade of an add-on would revert",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(o.schemas) == 0 && o.manifest == "":
				return usage("--manifest is missing: give the file of the add-on's next version, or two --schema")
			case len(o.schemas) > 0 && o.manifest != "":
				return usage("--manifest and --schema cannot be used together")
			case o.values != "" && len(o.schemas) == 0:
				return usage("--values is only allowed with --schema")
			case o.manifest != "":
				return o.diffManifest(cmd)
			case len(o.schemas) != 2:
				return usage("--schema is given %s: give that of the present version, and that of the next one", history.Count(len(o.schemas), "time"))
			}
			return o.diffSchemas(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.manifest, "manifest", "", "`file` with the objects of the add-on's next version; - for standard input")
	o.flags(flags)
	flags.StringVar(&o.manager, "manager", addon.Manager, "the add-on's field `manager`")
	flags.StringArrayVar(&o.schemas, "schema", nil, "`file` with the JSON schema of the configuration values: first of the present version, then of the next one")
	flags.StringVar(&o.values, "values", "", "`file` with your configuration values: JSON, YAML, or the answer of aws eks describe-addon")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o addonOptions) diffManifest(cmd *cobra.Command) error {
	found, err := o.preview(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return orInterrupted(cmd.Context(), err)
	}
	if err := show(cmd, o.json, found, text(previewText(found))); err != nil {
		return err
	}
	if taken, conflicts := inAll(found); taken+conflicts > 0 {
		return exitError{exitFailed, fmt.Errorf("an upgrade with OVERWRITE takes %s of yours, and with NONE it fails because of %d", history.Count(taken, "value"), conflicts)}
	}
	return nil
}

// preview reads what the upgrade would change.
func (o addonOptions) preview(ctx context.Context, in io.Reader) ([]addon.Object, error) {
	if o.manifest == "-" {
		in = files.Limit(interruptible(ctx, in), mostInput)
	} else {
		text, err := readInput(o.manifest)
		if err != nil {
			return nil, usage("--manifest: %w", err)
		}
		in = bytes.NewReader(text)
	}
	objects, err := addon.Objects(in)
	if err != nil {
		return nil, usage("--manifest %s: %w", o.manifest, err)
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("cluster at %s: %w", config.Host, err)
	}
	found, err := addon.Preview(ctx, api, objects, o.manager)
	switch {
	case errors.Is(err, addon.ErrManifest):
		return nil, usage("--manifest %s: %w", o.manifest, err)
	case err != nil:
		return nil, fmt.Errorf("cluster at %s: %w", config.Host, err)
	}
	return found, nil
}

func inAll(found []addon.Object) (taken, conflicts int) {
	for _, o := range found {
		taken, conflicts = taken+len(o.Taken), conflicts+len(o.Conflicts)
	}
	return taken, conflicts
}

// previewText is what becomes of each object, and then of all in each mode.
func previewText(found []addon.Object) string {
	var b strings.Builder
	for _, o := range found {
		switch {
		case o.New:
			fmt.Fprintf(&b, "%s: new\n", o.Name)
			continue
		case len(o.Taken) == 0:
			fmt.Fprintf(&b, "%s: nothing of yours changes\n", o.Name)
			continue
		}
		fmt.Fprintf(&b, "%s\n", o.Name)
		for _, v := range o.Taken {
			fmt.Fprintf(&b, "  %s, of %s\n", v.Field, strings.Join(v.Owners, ", "))
			for _, line := range v.Lines() {
				fmt.Fprintf(&b, "    %s\n", line)
			}
		}
	}
	taken, conflicts := inAll(found)
	fmt.Fprintf(&b, "\n%-9s  takes %s of yours\n%-9s  leaves %s of yours as they are\n", history.OverwriteConflicts, history.Count(taken, "value"), history.PreserveConflicts, history.Count(taken, "value"))
	if conflicts > 0 {
		fmt.Fprintf(&b, "%-9s  fails with %s, and changes nothing\n", history.RefuseConflicts, history.Count(conflicts, "conflict"))
	} else {
		fmt.Fprintf(&b, "%-9s  upgrades\n", history.RefuseConflicts)
	}
	return b.String()
}

// schemaDiff is what two versions accept differently.
type schemaDiff struct {
	Changes []addon.SchemaChange `json:"changes"`
	// Refused are the reasons why the next version does not accept the user's values.
	Refused []string `json:"refused,omitempty"`
}

func (o addonOptions) diffSchemas(cmd *cobra.Command) error {
	var schemas [2]addon.Schema
	for i, file := range o.schemas {
		text, err := readInput(file)
		if err != nil {
			return usage("--schema: %w", err)
		}
		if schemas[i], err = addon.ReadSchema(file, bytes.NewReader(text)); err != nil {
			return usage("--schema: %w", err)
		}
	}
	found := schemaDiff{Changes: addon.DiffSchemas(schemas[0], schemas[1])}
	if o.values != "" {
		text, err := readInput(o.values)
		if err != nil {
			return usage("--values: %w", err)
		}
		if found.Refused, err = schemas[1].Accepts(cmd.Context(), bytes.NewReader(text)); err != nil {
			return orInterrupted(cmd.Context(), usage("--values %s: %w", o.values, err))
		}
	}
	if err := show(cmd, o.json, found, text(found.String())); err != nil {
		return err
	}
	return found.verdict()
}

func (d schemaDiff) String() string {
	var b strings.Builder
	for _, c := range d.Changes {
		switch {
		case c.Was == "":
			fmt.Fprintf(&b, "%s: new: %s\n", c.Field, c.Is)
		case c.Is == "":
			fmt.Fprintf(&b, "%s: no longer accepted (it was %s)\n", c.Field, c.Was)
		default:
			fmt.Fprintf(&b, "%s: %s; it was %s\n", c.Field, c.Is, c.Was)
		}
	}
	if len(d.Changes) == 0 {
		fmt.Fprintln(&b, "both versions accept the same values")
	}
	for _, why := range d.Refused {
		fmt.Fprintf(&b, "your values are refused: %s\n", why)
	}
	return b.String()
}

// verdict is an error if values that were accepted may not be any more.
func (d schemaDiff) verdict() error {
	former := 0
	for _, c := range d.Changes {
		if c.AtRisk() {
			former++
		}
	}
	if former+len(d.Refused) == 0 {
		return nil
	}
	return exitError{exitFailed, fmt.Errorf("the second version does not accept %s as the first does, and refuses %d of yours", history.Count(former, "value"), len(d.Refused))}
}
