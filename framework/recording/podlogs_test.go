package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// logServer is as much of an API server as a reader of logs needs. Its pods have one container each.
type logServer struct {
	mu      sync.Mutex
	version int
	pods    map[string]*corev1.Pod
	lines   map[string][]string // of a pod's container; those before its last restart by NAME/previous
	changed chan struct{}       // closed when something has changed
}

func (s *logServer) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// run adds a pod, or restarts it.
func (s *logServer) run(name string) {
	s.change(func() {
		p := s.pods[name]
		if p == nil {
			p = &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "own", UID: types.UID(name), Labels: map[string]string{"app": "handler"}},
				Spec:       corev1.PodSpec{NodeName: "node-of-" + name, Containers: []corev1.Container{{Name: "main"}}},
				Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: name}}},
			}
			s.pods[name] = p
			return
		}
		s.lines[name+"/previous"], s.lines[name] = s.lines[name], nil
		p = p.DeepCopy()
		p.Status.ContainerStatuses[0].RestartCount++
		s.pods[name] = p
	})
}

func (s *logServer) log(name, text string) {
	s.change(func() {
		s.lines[name] = append(s.lines[name], time.Now().UTC().Format(time.RFC3339Nano)+" "+text+"\n")
	})
}

func (s *logServer) delete(name string) { s.change(func() { delete(s.pods, name) }) }

func (s *logServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, name, _ := strings.Cut(r.URL.Path, "/pods/")
	name, isLog := strings.CutSuffix(name, "/log")
	if isLog {
		s.serveLog(w, r, name)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}}
		for _, p := range s.pods {
			list.Items = append(list.Items, *p)
		}
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	if r.URL.Query().Get("sendInitialEvents") != "" {
		http.Error(w, "no such option", http.StatusUnprocessableEntity)
		return
	}
	sent := map[string]*corev1.Pod{}
	for {
		s.mu.Lock()
		changed, version := s.changed, fmt.Sprint(s.version)
		send := func(kind string, p *corev1.Pod) {
			p = p.DeepCopy()
			p.ResourceVersion = version
			_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": p})
		}
		for name, p := range s.pods {
			if sent[name] == nil {
				send("ADDED", p)
			} else if sent[name] != p {
				send("MODIFIED", p)
			}
			sent[name] = p
		}
		for name, p := range sent {
			if s.pods[name] == nil {
				send("DELETED", p)
				delete(sent, name)
			}
		}
		s.mu.Unlock()
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// serveLog ends a log that is followed when its container ends, as the kubelet does.
func (s *logServer) serveLog(w http.ResponseWriter, r *http.Request, name string) {
	key := name
	if r.URL.Query().Get("previous") == "true" {
		key += "/previous"
	}
	written := 0
	var restarts int32 = -1
	for {
		s.mu.Lock()
		p, changed, lines := s.pods[name], s.changed, s.lines[key]
		over := p == nil || restarts >= 0 && p.Status.ContainerStatuses[0].RestartCount != restarts
		if p == nil && restarts < 0 {
			s.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
			return
		}
		if !over {
			restarts = p.Status.ContainerStatuses[0].RestartCount
			for ; written < len(lines); written++ {
				_, _ = w.Write([]byte(lines[written]))
			}
		}
		s.mu.Unlock()
		_ = http.NewResponseController(w).Flush()
		if over || r.URL.Query().Get("follow") != "true" {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// lockedBuffer is what has been written so far.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// What pods that were deleted or restarted had logged is kept.
func TestTheLogsOfEveryPodAreKept(t *testing.T) {
	s := &logServer{pods: map[string]*corev1.Pod{}, lines: map[string][]string{}, changed: make(chan struct{})}
	server := httptest.NewServer(s)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var out lockedBuffer
	written := func(text string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(out.String(), text); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%q is missing in\n%s", text, out.String())
			}
		}
	}
	s.run("a")
	s.lines["a"] = []string{"2020-01-01T00:00:00Z of an earlier drill\n"}
	s.log("a", "a begins")
	logs := FollowLogs(t.Context(), client, "own", "app=handler", time.Now().Add(-time.Minute), &out)
	written("a begins")
	s.run("b")
	s.log("b", "b begins")
	written("b begins")
	s.log("a", "a panics")
	s.run("a") // restarted
	s.log("a", "a begins again")
	written("a begins again")
	s.log("b", "b has "+strings.Repeat("x", longestLine))
	s.log("b", "b ends")
	written("b ends")
	s.delete("b")
	s.run("late")
	s.log("late", "late begins")
	s.change(func() {}) // what follows is only read at the end
	if err := logs.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A line that is too long is broken.
	if got, want := strings.ReplaceAll(out.String(), "x", ""), `==> a on node-of-a <==
a begins
==> b on node-of-b <==
b begins
==> a on node-of-a <==
a panics
a begins again
==> b on node-of-b <==
b has 

b ends
==> late on node-of-late <==
late begins
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
