package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// queryFile is where a probe's queries go as they are settled, in the format that
// its name's extension asks for: .jsonl, .csv, or else the query record of
// docs/query-record.md, which takes a tenth of the room.
type queryFile struct {
	write func(history.Query)
	// end writes the summary, or what the probe failed of, where the format has
	// room for it, and closes the file.
	end func(prober.Summary, error) error
}

func createQueryFile(name string, clock *history.Clock, plan prober.Plan) (queryFile, error) {
	if name == "" {
		return queryFile{func(history.Query) {}, func(prober.Summary, error) error { return nil }}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return queryFile{}, usage("--out: %w", err)
	}
	if format := rowFormat(filepath.Ext(name)); format != nil {
		return rowFile(file, format), nil
	}
	out := prober.NewStreamWriter(file, clock, plan)
	return queryFile{out.Query, func(s prober.Summary, failed error) error {
		return errors.Join(out.End(s, failed), file.Close())
	}}, nil
}

// rowFile writes one line a query. The first error is kept for its end.
func rowFile(file io.WriteCloser, format func(io.Writer) func(history.Query) error) queryFile {
	buf := bufio.NewWriterSize(file, 1<<16)
	row := format(buf)
	var failed error
	write := func(q history.Query) {
		if failed == nil {
			failed = row(q)
		}
	}
	return queryFile{write, func(prober.Summary, error) error { return errors.Join(failed, buf.Flush(), file.Close()) }}
}

// rowFormat returns what writes a query as a line, nil for no such extension.
func rowFormat(extension string) func(io.Writer) func(history.Query) error {
	switch extension {
	case ".jsonl":
		return func(w io.Writer) func(history.Query) error {
			enc := json.NewEncoder(w)
			return func(q history.Query) error { return enc.Encode(q) }
		}
	case ".csv":
		return func(w io.Writer) func(history.Query) error {
			out := csv.NewWriter(w)
			titles := []string{"target", "mode", "port", "intended_ns", "sent_ns", "done_ns", "outcome", "node"}
			err := out.Write(titles)
			return func(q history.Query) error {
				number := func(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }
				err = errors.Join(err, out.Write([]string{
					q.Target, string(q.Mode), strconv.Itoa(q.Port), number(q.Intended), number(q.Sent), number(q.Done), string(q.Outcome), q.Node,
				}))
				out.Flush()
				return errors.Join(err, out.Error())
			}
		}
	}
	return nil
}
