package trackrecord

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/strict"
)

// Record is when each case was reproduced last. Only a reproduction is kept.
type Record struct {
	Rows []Row `yaml:"rows"`
}

// Row is the last reproduction of a case.
type Row struct {
	Issue string `yaml:"issue"`
	// Date is the day in UTC, as 2006-01-02.
	Date string `yaml:"date"`
	// Digest is that of the scenario's text: another one means that the scenario has
	// changed since.
	Digest string `yaml:"digest"`
	Broken Play   `yaml:"broken"`
	Fixed  *Play  `yaml:"fixed,omitempty"`
	// On is the machine in words: Kubernetes, kernel, cores.
	On string `yaml:"on"`
}

// header is the comment at the top of the file.
const header = "# When each case was reproduced last. `make reproduce` writes it.\n"

// ReadRecord reads the file; one that is not there is empty.
func ReadRecord(file string) (Record, error) {
	var r Record
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read the record: %w", err)
	}
	if err := strict.Decode(file, data, &r); err != nil {
		return r, fmt.Errorf("read the record: %w", err)
	}
	for _, row := range r.Rows {
		if _, err := time.Parse(time.DateOnly, row.Date); err != nil {
			return r, fmt.Errorf("read the record: %s: %s: %w", file, row.Issue, err)
		}
	}
	return r, nil
}

// Of is the last reproduction of a case; false if it never was.
func (r Record) Of(issue string) (Row, bool) {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Issue == issue })
	if i < 0 {
		return Row{}, false
	}
	return r.Rows[i], true
}

// Write puts a reproduction into the file, in place of an earlier one of its case.
func (r Record) Write(file string, row Row) (Record, error) {
	r.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(o Row) bool { return o.Issue == row.Issue })
	r.Rows = append(r.Rows, row)
	slices.SortFunc(r.Rows, func(a, b Row) int { return compareIssues(a.Issue, b.Issue) })
	// As make verify requires; and what was seen stays on a line.
	text, err := yaml.Dump(r, yaml.WithV3Defaults(), yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return r, fmt.Errorf("encode the record: %w", err)
	}
	if err := os.WriteFile(file, append([]byte(header), text...), 0o644); err != nil {
		return r, fmt.Errorf("write the record: %w", err)
	}
	return r, nil
}
