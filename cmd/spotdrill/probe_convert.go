package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

func newProbeConvertCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "convert RECORD FILE",
		Short: "Turn a query record into JSON lines or CSV",
		Long: `Turn a query record, such as queries.bin in a drill's folder or what --out wrote,
into JSON lines or CSV: as FILE ends in .jsonl or .csv. What can be read of a
record that was cut short is written, and the exit code is 1.`,
		Example: `  spotdrill probe convert reports/out/latest/coredns-drained-lameduck-0s/attempt-1/queries.bin queries.csv`,
		Args:    cobra.ExactArgs(2),
		RunE:    func(_ *cobra.Command, args []string) error { return convert(args[0], args[1]) },
	}
}

func convert(from, to string) error {
	format := rowFormat(filepath.Ext(to))
	if format == nil {
		return usage("%s: want a file that ends in .jsonl or .csv", to)
	}
	in, err := os.Open(from)
	if err != nil {
		return exitError{exitUsage, err}
	}
	defer in.Close()
	record, err := history.NewQueryReader(in)
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("%s: %w", from, err)}
	}
	file, err := os.Create(to)
	if err != nil {
		return exitError{exitUsage, err}
	}
	out := rowFile(file, format)
	for {
		q, err := record.Next()
		if err == nil {
			out.write(q)
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = exitError{exitFailed, fmt.Errorf("%s: %w", from, err)}
		}
		return errors.Join(err, out.end(prober.Summary{}, nil))
	}
}
