package consent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	journalFormat = "spotdrill.dev/journal/v1"
	journalSuffix = ".jsonl"
)

// header is the first line of a journal.
type header struct {
	Format  string    `json:"format"`
	At      time.Time `json:"at"`
	Cluster Cluster   `json:"cluster"`
}

// Entry is the second line of a journal: what a drill was about to change, and how it was before.
// The drill may have ended before it changed anything.
type Entry struct {
	File    string  `json:"-"` // the journal that it is in
	Cluster Cluster `json:"-"` // from the first line
	Running bool    `json:"-"` // the drill's process still runs; Restore refuses it

	At     time.Time            `json:"at"`
	Action scenarios.Permission `json:"action"`
	Node   *NodeState           `json:"node,omitempty"` // of drain and notice
	Pod    string               `json:"pod,omitempty"`  // of evict-coredns: namespace/name
	PodUID types.UID            `json:"podUID,omitempty"`
}

// String describes the drill in a line.
func (e Entry) String() string {
	what := "pod " + e.Pod
	if e.Node != nil {
		what = "node " + e.Node.Name
	}
	return fmt.Sprintf("%s of %s in context %q (%s), begun %s", e.Action, what, e.Cluster.Context, e.Cluster.Server, e.At.UTC().Format("2006-01-02 15:04:05 UTC"))
}

func (e Entry) check() error {
	switch {
	case e.At.IsZero():
		return errors.New("at is missing")
	case !slices.Contains(scenarios.Permissions(), e.Action):
		return fmt.Errorf("unknown action %q, allowed: %q", e.Action, scenarios.Permissions())
	case e.Action == scenarios.EvictCoreDNS && (e.Pod == "" || e.PodUID == "" || e.Node != nil):
		return errors.New("an eviction needs pod and podUID, and no node")
	case e.Action != scenarios.EvictCoreDNS && (e.Node == nil || e.Node.Name == "" || e.Node.UID == "" || e.Pod != "" || e.PodUID != ""):
		return fmt.Errorf("the action %s needs a node with name and uid, and no pod", e.Action)
	}
	return nil
}

// Pending returns the drills that may have changed something and did not put it back, oldest
// first. An empty folder stands for JournalFolder. If a journal is damaged, the error names it, and
// the entries of the others are returned all the same.
//
// A last line without its end is ignored: a drill begins only when the whole line is on disk.
func Pending(folder string) ([]Entry, error) {
	if folder == "" {
		var err error
		if folder, err = JournalFolder(); err != nil {
			return nil, err
		}
	}
	files, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journals: %w", err)
	}
	var out []Entry
	var errs []error
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), journalSuffix) {
			continue
		}
		e, err := readJournal(filepath.Join(folder, f.Name()))
		if err != nil {
			errs = append(errs, err)
		} else if e != nil {
			out = append(out, *e)
		}
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return a.At.Compare(b.At) })
	return out, errors.Join(errs...)
}

// readJournal reads a journal; nil if its drill changed nothing.
func readJournal(file string) (*Entry, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it was put back meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer func() { _ = f.Close() }()
	free, err := lock(f)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	e, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("the journal is damaged: %s:%w; find out whether its node is still cordoned, then delete the file", file, err)
	}
	if e != nil {
		e.File, e.Running = file, !free
	}
	return e, nil
}

// parse reads the text of a journal; nil if its drill changed nothing. Errors begin with the line.
func parse(text []byte) (*Entry, error) {
	lines := bytes.Split(text, []byte("\n"))
	lines = lines[:len(lines)-1] // what follows the last end of a line
	if len(lines) == 0 {
		return nil, nil
	}
	var h header
	if err := decode(lines[0], &h); err != nil {
		return nil, fmt.Errorf("1: %w", err)
	}
	switch {
	case h.Format != journalFormat:
		return nil, fmt.Errorf("1: the format is %q, and this version reads %s", h.Format, journalFormat)
	case h.At.IsZero() || h.Cluster.UID == "":
		return nil, errors.New("1: at or the cluster's uid is missing")
	case len(lines) == 1:
		return nil, nil
	case len(lines) > 2:
		return nil, errors.New("3: a journal has two lines")
	}
	var e Entry
	if err := decode(lines[1], &e); err != nil {
		return nil, fmt.Errorf("2: %w", err)
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("2: %w", err)
	}
	e.Cluster = h.Cluster
	return &e, nil
}

// decode reads one line of JSON without unknown fields.
func decode(line []byte, out any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// lock locks a journal until its file is closed, and reports whether it could: another process, or
// this one, may have it locked.
func lock(f *os.File) (free bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock journal %s: %w", f.Name(), err)
	}
	return true, nil
}
