package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/scenarios"
)

// measurement is what one trial measured, a line of the results.
type measurement struct {
	// Matrix is the digest of what all cells share, see digest.
	Matrix string `json:"matrix"`
	Cell   string `json:"cell"`
	Repeat int    `json:"repeat"` // from 1
	// Outcome is pass if no query was lost, fail if one was, and unknown if the drill does
	// not show it: see Why.
	Outcome  verdict.Outcome `json:"outcome"`
	Why      string          `json:"why,omitempty"`
	Fresh    count           `json:"fresh"`
	Fixed    count           `json:"fixed"`
	Control  count           `json:"control"`
	Attempts int             `json:"attempts"`
	History  string          `json:"history"` // its folder, relative to the results
	Played   time.Time       `json:"played"`
}

// count is what happened to a stream of queries.
type count struct {
	Asked int `json:"asked"`
	Lost  int `json:"lost"`
	// Window is the longest in which queries were lost, in milliseconds.
	Window float64 `json:"windowMs"`
	// Conntrack is how many queries are in neither Asked nor Lost: connection tracking
	// itself lost them, and the matrix does not count them.
	Conntrack int `json:"lostConntrack"`
}

// ResultsFile is the name of the results in a sweep's folder.
const ResultsFile = "results.jsonl"

// format is that of the results' lines. It changes with what a line contains, so that
// older lines are rejected: since 2 they have what connection tracking lost.
const format = 2

// digest identifies what all cells of a matrix share: results of one matrix count for
// another one with more cells or repeats if it is the same.
func digest(s scenarios.Sweep, handler, proxyMode string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(fmt.Appendf(nil, "%d %q %q %q %t %q %q", format, s.BaseDigest(), s.Set, s.Mode, s.ExceptConntrack, handler, proxyMode)))
}

// store holds results on disk, one line each, added as they come.
type store struct {
	file    string
	digest  string
	results map[key]measurement
}

type key struct {
	cell   string
	repeat int
}

// openStore reads the results. An incomplete last line is dropped; results of another
// matrix are an error.
func openStore(dir, digest string) (*store, error) {
	s := &store{file: filepath.Join(dir, ResultsFile), digest: digest, results: map[key]measurement{}}
	data, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	for i, line := range bytes.Split(data[:whole], []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var p measurement
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&p); err != nil {
			return nil, fmt.Errorf("read results: %s:%d: %w; remove the file to start over", s.file, i+1, err)
		}
		if p.Matrix != digest {
			return nil, fmt.Errorf("the results in %s (line %d) are of another base, set, mode, handler or kube-proxy mode, or of an older spotdrill; set another --out, or remove the file to start over", s.file, i+1)
		}
		s.results[key{p.Cell, p.Repeat}] = p
	}
	if whole < len(data) {
		if err := os.Truncate(s.file, int64(whole)); err != nil {
			return nil, fmt.Errorf("drop the line of %s that was cut off: %w", s.file, err)
		}
	}
	return s, nil
}

// add writes a result before it is used.
func (s *store) add(p measurement) error {
	p.Matrix = s.digest
	line, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	f, err := os.OpenFile(s.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write result to %s: %w", s.file, err)
	}
	s.results[key{p.Cell, p.Repeat}] = p
	return nil
}

// known is the cell's result of that repeat; ok reports whether it was judged.
func (s *store) known(cell string, repeat int) (p measurement, ok bool) {
	p, ok = s.results[key{cell, repeat}]
	return p, ok && (p.Outcome == verdict.Pass || p.Outcome == verdict.Fail)
}
