package consent

import (
	"bytes"
	"context"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/files"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Cluster is the cluster of a drill.
type Cluster struct {
	Kubeconfig string `json:"kubeconfig,omitempty"` // its absolute path, or paths
	Context    string `json:"context,omitempty"`
	Server     string `json:"server,omitempty"` // URL of the API server
	// UID is that of the namespace kube-system, which is as good as an identity of the cluster.
	UID types.UID `json:"uid"`
}

// String names the cluster for people.
func (c Cluster) String() string {
	return fmt.Sprintf("context %q at %s", c.Context, c.Server)
}

// ClusterUID reads the UID by which a cluster is recognized.
func ClusterUID(ctx context.Context, client kubernetes.Interface) (types.UID, error) {
	n, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("identify the cluster by its namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return n.UID, nil
}

// is returns an error if the client is that of another cluster.
func (c Cluster) is(ctx context.Context, client kubernetes.Interface) error {
	uid, err := ClusterUID(ctx, client)
	if err == nil && uid != c.UID {
		err = fmt.Errorf("this is another cluster: its namespace %s has the UID %s, and that of the drill (context %q, server %s) has %s", metav1.NamespaceSystem, uid, c.Context, c.Server, c.UID)
	}
	return err
}

// Journal records on disk what a drill is about to change. It is one file, which is removed when
// everything is put back, and locked as long as the drill's process runs.
type Journal struct {
	cluster Cluster
	file    *os.File
	entry   *Entry // nil: nothing was changed, or all is put back
	over    bool   // the file is removed
}

// ErrNoHome reports that the user has no folder for state.
var ErrNoHome = errors.New("the folder of the journals is not known")

// JournalFolder returns where journals are by default: spotdrill/journal in $XDG_STATE_HOME, which
// is ~/.local/state if it is not set.
func JournalFolder() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // which the specification requires to ignore
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoHome, err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "spotdrill", "journal"), nil
}

// OpenJournal starts the journal of one drill. An empty folder stands for JournalFolder. Its Close
// must be called.
func OpenJournal(folder string, c Cluster) (*Journal, error) {
	if c.UID == "" {
		return nil, errors.New("open journal: the cluster has no UID")
	}
	if folder == "" {
		var err error
		if folder, err = JournalFolder(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	now := time.Now().UTC()
	f, err := os.CreateTemp(folder, now.Format("20060102T150405Z")+"-*"+journalSuffix)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{cluster: c, file: f}
	for free := false; !free; { // another process may look into the new file at this moment
		if free, err = lock(f); err != nil {
			return nil, errors.Join(err, j.Close())
		}
	}
	if err := errors.Join(j.line(header{Format: journalFormat, At: now, Cluster: c}), syncFolder(folder)); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// before writes how things are, and returns when it is on disk.
func (j *Journal) before(e Entry) error {
	if j.entry != nil || j.over {
		return fmt.Errorf("journal %s has had its drill: open another one", j.file.Name())
	}
	e.File, e.Cluster = j.file.Name(), j.cluster
	if err := e.check(); err != nil {
		return fmt.Errorf("write journal %s: %w", j.file.Name(), err)
	}
	if err := j.line(e); err != nil {
		return err
	}
	j.entry = &e
	return nil
}

func (j *Journal) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write journal %s: %w", j.file.Name(), err)
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return wrap.Errorf(j.file.Sync(), "write journal")
}

// done records that there is nothing to put back any more.
func (j *Journal) done() error {
	if err := remove(j.file.Name()); err != nil {
		return err
	}
	j.entry, j.over = nil, true
	return nil
}

// Close closes the journal. If something is yet to be put back, the file stays for Pending to find.
func (j *Journal) Close() error {
	var err error
	if j.entry == nil && !j.over {
		err = j.done()
	}
	if closed := j.file.Close(); closed != nil && !errors.Is(closed, os.ErrClosed) {
		err = errors.Join(err, fmt.Errorf("close journal: %w", closed))
	}
	return err
}

// remove removes a journal, and returns when that is on disk.
func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove journal: %w", err)
	}
	return syncFolder(filepath.Dir(file))
}

// syncFolder returns when the names in a folder are on disk.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("sync the folder of the journals: %w", err)
	}
	return wrap.Errorf(errors.Join(d.Sync(), d.Close()), "sync the folder of the journals")
}

const (
	journalFormat = "spotdrill.dev/journal/v2"
	journalSuffix = ".jsonl"
	// mostJournal is the largest journal that is read, in bytes: a node's taints, and the keys of its
	// labels and annotations.
	mostJournal = 1 << 20
)

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
	Running bool    `json:"-"` // the drill's process still runs; RestorePending refuses it

	ID     string               `json:"id"` // of the drill; it is on the node as well
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
	case e.ID == "":
		return errors.New("id is missing")
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
	f, err := files.Open(filepath.Dir(file), filepath.Base(file))
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
	text, err := io.ReadAll(files.Limit(f, mostJournal))
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
