package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/prober/probereport"
)

func newProbeConvertCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "convert RECORD FILE",
		Short: "Convert a query record to JSON lines or CSV",
		Long: `Convert a query record, such as queries.bin in a drill's folder or a file that
--out wrote, to JSON lines or CSV, depending on whether FILE ends in .jsonl or
.csv. If the record is incomplete, the readable part is converted and the exit
code is 1.`,
		Example: `  spotdrill probe convert reports/out/latest/coredns-drained-lameduck-0s/attempt-1/queries.bin queries.csv`,
		Args:    cobra.ExactArgs(2),
		RunE:    func(_ *cobra.Command, args []string) error { return convert(args[0], args[1]) },
	}
}

func convert(from, to string) error {
	if !probereport.HasRowFormat(to) {
		return usage("%s: the file's name must end in .jsonl or .csv", to)
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
	out, err := probereport.CreateRowFile(to)
	if err != nil {
		return exitError{exitUsage, err}
	}
	for {
		q, err := record.Next()
		if err == nil {
			out.Write(q)
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = exitError{exitFailed, fmt.Errorf("%s: %w", from, err)}
		}
		return errors.Join(err, out.Close(prober.Summary{}, nil))
	}
}
