package recording

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wait"
)

func nodeOf(name, uid, version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version}}
}

// recorder records into a folder that the test removes.
func recorder(t *testing.T) *history.Recorder {
	t.Helper()
	rec, err := history.Create(t.TempDir(), history.NewClock(), history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close(false) })
	return rec
}

// gapsOf returns the events of a record that report that a watch was lost or is back.
func gapsOf(rec *history.Recorder) []history.Kind {
	var gaps []history.Kind
	for _, e := range rec.Events() {
		if e.Kind == history.WatchLost || e.Kind == history.WatchBack {
			gaps = append(gaps, e.Kind)
		}
	}
	return gaps
}

func TestAWatchThatStartsAgainIsNotComplete(t *testing.T) {
	expired := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410}
	for name, c := range map[string]struct {
		end    func(*watch.FakeWatcher)
		lost   bool // for a while, and back then
		broken bool
		gaps   bool // are allowed
	}{
		"it goes on":                                     {},
		"it ends and is taken up":                        {end: func(w *watch.FakeWatcher) { w.Stop() }, lost: true},
		"what was next is too old":                       {end: func(w *watch.FakeWatcher) { w.Error(&expired) }, lost: true, broken: true},
		"what was next is too old, and gaps are allowed": {end: func(w *watch.FakeWatcher) { w.Error(&expired) }, lost: true, gaps: true},
	} {
		t.Run(name, func(t *testing.T) {
			rec := recorder(t)
			client := fake.NewClientset(nodeOf("a", "1", "10"))
			watches := make(chan *watch.FakeWatcher, 2)
			client.PrependWatchReactor("nodes", func(clienttesting.Action) (bool, watch.Interface, error) {
				w := watch.NewFake()
				watches <- w
				return true, w, nil
			})
			w, err := Watch(t.Context(), client, rec, Scope{DNS: types.NamespacedName{Namespace: "kube-system", Name: "kube-dns"}, Pods: []string{metav1.NamespaceAll}, Gaps: c.gaps})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			nodes := <-watches
			later := nodeOf("b", "2", "11")
			if err := client.Tracker().Add(later); err != nil {
				t.Fatal(err)
			}
			nodes.Add(later)
			if c.end != nil {
				c.end(nodes)
				<-watches
			}
			if err := w.Complete(t.Context()); (err != nil) != c.broken || c.broken && !strings.Contains(err.Error(), "the watch of nodes was interrupted") {
				t.Errorf("broken %t, want %t: %v", err != nil, c.broken, err)
			}
			// The test may come here between the server's answer and its record.
			if err := wait.Until(t.Context(), time.Minute, "the watch to be back", func(context.Context) string {
				if gaps := gapsOf(rec); len(gaps)%2 != 0 {
					return fmt.Sprint(gaps)
				}
				return ""
			}); err != nil {
				t.Error(err)
			}
			var present []string
			missed := false
			for _, e := range rec.Events() {
				missed = missed || e.Kind == history.WatchBack && strings.Contains(e.Note, "is not on record")
				if e.Kind == history.WatchLost && (e.Watch() != "nodes" || e.Said == nil || *e.Said <= 0 || *e.Said > e.At) {
					t.Errorf("lost: %+v", e)
				}
				if e.Kind == history.NodePresent {
					present = append(present, e.Node)
				}
			}
			if !slices.Equal(present, []string{"a", "b"}) {
				t.Errorf("nodes on record: %v", present)
			}
			if missed != c.gaps {
				t.Errorf("it is on record that something may be missing: %t, want %t", missed, c.gaps)
			}
			gaps := gapsOf(rec)
			if pairs := []history.Kind{history.WatchLost, history.WatchBack}; c.lost != (len(gaps) > 0) || c.lost && !slices.Equal(gaps[:2], pairs) {
				t.Errorf("lost and back: %v", gaps)
			}
		})
	}
}

func TestARecordIsCompleteOnceItHasReachedTheList(t *testing.T) {
	for name, c := range map[string]struct {
		recorded []any
		newest   string
		why      string
	}{
		"the same":                       {recorded: []any{nodeOf("a", "1", "10"), nodeOf("b", "2", "11")}, newest: "11"},
		"an object was not seen yet":     {recorded: []any{nodeOf("a", "1", "10")}, newest: "10", why: "b has changed"},
		"a change was not seen yet":      {recorded: []any{nodeOf("a", "1", "10"), nodeOf("b", "2", "9")}, newest: "10", why: "b has changed"},
		"an end was not seen yet":        {recorded: []any{nodeOf("a", "1", "10"), nodeOf("b", "2", "11"), nodeOf("c", "3", "5")}, newest: "11", why: "3 are recorded, 2 exist"},
		"more has happened since":        {recorded: []any{nodeOf("a", "1", "14")}, newest: "15"},
		"the name is another's by now":   {recorded: []any{nodeOf("a", "1", "10"), nodeOf("b", "8", "7")}, newest: "10", why: "b has changed"},
		"nothing, and nothing was ended": {newest: "9", why: "has changed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sight{
				handler: on(func(*corev1.Node, bool) {}, func(_, _ *corev1.Node) {}, func(*corev1.Node) {}),
				rec:     recorder(t), newest: func() string { return c.newest }, listed: make(chan struct{}),
			}
			if err := s.Replace(c.recorded, ""); err != nil {
				t.Fatal(err)
			}
			list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "12"}, Items: []corev1.Node{*nodeOf("a", "1", "10"), *nodeOf("b", "2", "11")}}
			if why := s.whyBehind(list); why != c.why && (c.why == "" || !strings.HasSuffix(why, c.why)) {
				t.Errorf("got %q, want %q", why, c.why)
			}
		})
	}
}

// The list of a watch that starts again is recorded as far as it differs.
func TestAnotherListIsRecordedByItsDifference(t *testing.T) {
	var seen []string
	s := &sight{
		handler: on(func(n *corev1.Node, initial bool) {
			what := "added "
			if initial {
				what = "present "
			}
			seen = append(seen, what+n.Name)
		}, func(_, n *corev1.Node) { seen = append(seen, "changed "+n.Name) }, func(n *corev1.Node) { seen = append(seen, "gone "+n.Name) }),
		rec: recorder(t), listed: make(chan struct{}),
	}
	for _, list := range [][]any{{nodeOf("a", "1", "1"), nodeOf("b", "2", "2")}, {nodeOf("b", "3", "4"), nodeOf("a", "1", "5")}} {
		if err := s.Replace(list, ""); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"present a", "present b", "gone b", "added b", "changed a"}
	if !slices.Equal(seen, want) {
		t.Errorf("got  %q\nwant %q", seen, want)
	}
	if s.broken == nil {
		t.Error("the interruption of the watch is not reported")
	}
}

// A list of what is kept shows all that happened since the watch was lost.
func TestAListOfWhatIsKeptMissesNothing(t *testing.T) {
	s := &sight{handler: on(func(*corev1.Node, bool) {}, func(_, _ *corev1.Node) {}, func(*corev1.Node) {}), rec: recorder(t), listed: make(chan struct{}), lasting: true}
	for _, c := range []struct {
		list   []any
		broken bool
	}{
		{[]any{nodeOf("a", "1", "1")}, false},
		{[]any{nodeOf("a", "1", "1"), nodeOf("b", "2", "2")}, false},
		{[]any{nodeOf("b", "2", "2")}, true},
	} {
		if err := s.Replace(c.list, ""); err != nil {
			t.Fatal(err)
		}
		if (s.broken != nil) != c.broken {
			t.Errorf("with %d objects: broken %v, want %t", len(c.list), s.broken, c.broken)
		}
	}
}
