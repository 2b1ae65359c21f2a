package consent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/scenarios"
)

const (
	headerLine = `{"format":"spotdrill.dev/journal/v2","at":"2026-11-27T01:13:52Z","cluster":{"context":"staging","uid":"cluster-1"}}` + "\n"
	drainLine  = `{"id":"D1","at":"2026-11-27T01:13:53Z","action":"drain","node":{"name":"n1","uid":"uid-n1","unschedulable":false,"taints":[{"key":"own","effect":"NoSchedule"}]}}` + "\n"
	evictLine  = `{"id":"D1","at":"2026-11-27T01:13:53Z","action":"evict-coredns","pod":"kube-system/dns-1","podUID":"uid-dns-1"}` + "\n"
)

func TestPending(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // what is pending
		err  string // a part of the error, after the name of the file
	}{
		"a drain":                     {headerLine + drainLine, `drain of node n1 in context "staging" (), begun 2026-11-27 01:13:53 UTC`, ""},
		"an eviction":                 {headerLine + evictLine, `evict-coredns of pod kube-system/dns-1 in context "staging" (), begun 2026-11-27 01:13:53 UTC`, ""},
		"nothing was written":         {"", "", ""},
		"a torn first line":           {headerLine[:40], "", ""},
		"nothing was about to change": {headerLine, "", ""},
		"a torn last line, which nothing followed": {headerLine + drainLine[:60], "", ""},
		"a last line without its end":              {headerLine + strings.TrimSuffix(drainLine, "\n"), "", ""},
		"something torn follows":                   {headerLine + drainLine + `{"at"`, "drain of node n1", ""},

		"a damaged first line":       {"{\n" + drainLine, "", ":1: unexpected EOF"},
		"a damaged last line":        {headerLine + "\x00\x00\x00\n", "", ":2: invalid character"},
		"no header":                  {drainLine, "", ":1: json: unknown field"},
		"a newer format":             {strings.Replace(headerLine, "/v2", "/v3", 1) + drainLine, "", `:1: the format is "spotdrill.dev/journal/v3", and this version reads spotdrill.dev/journal/v2`},
		"no identity of the cluster": {strings.Replace(headerLine, "cluster-1", "", 1) + drainLine, "", ":1: at or the cluster's uid is missing"},
		"an unknown field":           {headerLine + strings.Replace(drainLine, `"action"`, `"hostname":"a","action"`, 1), "", `:2: json: unknown field "hostname"`},
		"an unknown action":          {headerLine + strings.Replace(drainLine, `"drain"`, `"reboot"`, 1), "", `:2: unknown action "reboot"`},
		"a node without a UID":       {headerLine + strings.Replace(drainLine, "uid-n1", "", 1), "", ":2: the action drain needs a node with name and uid"},
		"a drain without a node":     {headerLine + strings.Replace(evictLine, "evict-coredns", "drain", 1), "", ":2: the action drain needs a node"},
		"an eviction of a node":      {headerLine + strings.Replace(drainLine, `"drain"`, `"evict-coredns"`, 1), "", ":2: an eviction needs pod and podUID"},
		"no id":                      {headerLine + strings.Replace(drainLine, "D1", "", 1), "", ":2: id is missing"},
		"no time":                    {headerLine + strings.Replace(drainLine, "2026-11-27T01:13:53Z", "0001-01-01T00:00:00Z", 1), "", ":2: at is missing"},
		"two objects in a line":      {headerLine + strings.TrimSuffix(drainLine, "\n") + drainLine, "", ":2: something follows the object"},
		"three lines":                {headerLine + drainLine + drainLine, "", ":3: a journal has two lines"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			file := filepath.Join(folder, "a.jsonl")
			for name, text := range map[string]string{"a.jsonl": c.text, "z.jsonl": headerLine + drainLine, "notes.txt": "mine"} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Pending(folder)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), file+c.err)) {
				t.Errorf("the error is %v, want %q", err, file+c.err)
			}
			want := 1 // the other journal, whatever this one is
			if c.want != "" {
				want = 2
			}
			if len(got) != want || c.want != "" && (!strings.Contains(got[0].String(), c.want) || got[0].File != file || got[0].Cluster.UID != testCluster) {
				t.Errorf("pending: %v, want %q", got, c.want)
			}
		})
	}
}

func TestPendingWithoutAFolder(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if got, err := Pending(""); err != nil || len(got) > 0 {
		t.Errorf("pending: %v, %v", got, err)
	}
}

func TestJournalFolder(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	for state, want := range map[string]string{
		"/var/state": "/var/state/spotdrill/journal",
		"":           "/home/ann/.local/state/spotdrill/journal",
		"relative":   "/home/ann/.local/state/spotdrill/journal",
	} {
		t.Setenv("XDG_STATE_HOME", state)
		if got, err := JournalFolder(); err != nil || got != want {
			t.Errorf("with %q: %s, %v; want %s", state, got, err, want)
		}
	}
}

func TestJournal(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	folder, err := JournalFolder()
	if err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, "")
	node := newWorld().nodes["n1"]
	e := Entry{ID: "D1", At: time.Date(2026, 11, 27, 1, 13, 52, 0, time.UTC), Action: scenarios.DrainNode, Node: stateOf(node)}
	if err := j.before(e); err != nil {
		t.Fatal(err)
	}
	if err := j.before(e); err == nil || !strings.Contains(err.Error(), "has had its drill") {
		t.Errorf("a second drill: %v", err)
	}
	if info, err := os.Stat(j.file.Name()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the journal is not only for its user: %v, %v", info, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	left := mustPending(t, folder)
	e.File, e.Cluster = j.file.Name(), j.cluster
	if len(left) != 1 || !reflect.DeepEqual(left[0], e) {
		t.Errorf("read %+v, want %+v", left, e)
	}
}

func TestAJournalWithoutADrillIsRemoved(t *testing.T) {
	folder := t.TempDir()
	if err := mustOpen(t, folder).Close(); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}

func TestAJournalThatCannotBeWritten(t *testing.T) {
	if _, err := OpenJournal(t.TempDir(), Cluster{}); err == nil || !strings.Contains(err.Error(), "the cluster has no UID") {
		t.Errorf("without a cluster: %v", err)
	}
	d := newDrill(t, newWorld(), drainN1)
	if err := d.j.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.play(t.Context()); err == nil || !strings.Contains(err.Error(), "write journal") {
		t.Errorf("played: %v", err)
	}
	if len(d.events) > 0 || d.api.node("n1").Spec.Unschedulable {
		t.Error("it was played without a journal")
	}
}

func FuzzJournal(f *testing.F) {
	for _, text := range []string{"", headerLine, headerLine + drainLine, headerLine + evictLine, headerLine + drainLine[:70], "\n\n\n", headerLine + "null\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parse(text)
		if err != nil || e == nil {
			return
		}
		if e.Action != scenarios.EvictCoreDNS && (e.Node == nil || e.Node.Name == "" || e.Node.UID == "") || e.Cluster.UID == "" {
			t.Fatalf("incomplete: %+v", e)
		}
		first, err := json.Marshal(header{Format: journalFormat, At: e.At, Cluster: e.Cluster})
		if err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse([]byte(string(first) + "\n" + string(second) + "\n"))
		if err != nil || again.String() != e.String() || len(taintsOf(again)) != len(taintsOf(e)) {
			t.Fatalf("written and read again, %+v is %+v, %v", e, again, err)
		}
	})
}

func taintsOf(e *Entry) []corev1.Taint {
	if e.Node == nil {
		return nil
	}
	return e.Node.Taints
}
