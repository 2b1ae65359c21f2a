package consent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Cluster is the cluster of a drill.
type Cluster struct {
	Kubeconfig string `json:"kubeconfig,omitempty"` // its path, or paths
	Context    string `json:"context,omitempty"`
	Server     string `json:"server,omitempty"` // URL of the API server
	// UID is that of the namespace kube-system, which is as good as an identity of the cluster.
	UID types.UID `json:"uid"`
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

// JournalFolder returns where journals are by default: spotdrill/journal in $XDG_STATE_HOME, which
// is ~/.local/state if it is not set.
func JournalFolder() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // which the specification requires to ignore
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the folder of the journals: %w", err)
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
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
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
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync the folder of the journals: %w", err)
	}
	return nil
}
