package probereport

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

	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
)

// QueryFile receives every query of a probe as soon as its outcome is known.
type QueryFile struct {
	// Write keeps the first error for Close.
	Write func(history.Query)
	// Close adds the summary, or why the probe failed, if the format has room for it,
	// and closes the file.
	Close func(summary prober.Summary, failed error) error
}

// CreateQueryFile creates the file in the format of its extension: .jsonl, .csv, or
// else the query record of docs/query-record.md, which takes a tenth of the space.
// Without a name queries are discarded. The clock is the one of the probe.
func CreateQueryFile(name string, clock *history.Clock, plan prober.Plan) (QueryFile, error) {
	if name == "" {
		return QueryFile{func(history.Query) {}, func(prober.Summary, error) error { return nil }}, nil
	}
	if HasRowFormat(name) {
		return CreateRowFile(name)
	}
	file, err := os.Create(name)
	if err != nil {
		return QueryFile{}, err
	}
	record := prober.NewRecordWriter(file, clock, plan)
	return QueryFile{record.Query, func(s prober.Summary, failed error) error {
		return errors.Join(record.End(s, failed), file.Close())
	}}, nil
}

// HasRowFormat reports whether the name's extension is one of a format with a line for
// each query: .jsonl or .csv.
func HasRowFormat(name string) bool { return rowFormat(name) != nil }

// CreateRowFile creates a file with a line for each query, in the format of its
// extension: .jsonl or .csv.
func CreateRowFile(name string) (QueryFile, error) {
	format := rowFormat(name)
	if format == nil {
		return QueryFile{}, errors.New(name + " does not end in .jsonl or .csv")
	}
	file, err := os.Create(name)
	if err != nil {
		return QueryFile{}, err
	}
	buf := bufio.NewWriterSize(file, 1<<16)
	writeRow := format(buf)
	var failed error
	write := func(q history.Query) {
		if failed == nil {
			failed = writeRow(q)
		}
	}
	return QueryFile{write, func(prober.Summary, error) error { return errors.Join(failed, buf.Flush(), file.Close()) }}, nil
}

// rowFormat returns the format of the name's extension, nil if there is none.
func rowFormat(name string) func(io.Writer) func(history.Query) error {
	switch filepath.Ext(name) {
	case ".jsonl":
		return jsonRows
	case ".csv":
		return csvRows
	}
	return nil
}

func jsonRows(w io.Writer) func(history.Query) error {
	enc := json.NewEncoder(w)
	return func(q history.Query) error { return enc.Encode(q) }
}

func csvRows(w io.Writer) func(history.Query) error {
	out := csv.NewWriter(w)
	number := func(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }
	err := out.Write([]string{"target", "mode", "port", "intended_ns", "sent_ns", "done_ns", "outcome", "node"})
	return func(q history.Query) error {
		err = errors.Join(err, out.Write([]string{
			foreign.Cell(q.Target), foreign.Cell(string(q.Mode)), strconv.Itoa(q.Port), number(q.Intended), number(q.Sent), number(q.Done), foreign.Cell(string(q.Outcome)), foreign.Cell(q.Node),
		}))
		out.Flush()
		return errors.Join(err, out.Error())
	}
}
