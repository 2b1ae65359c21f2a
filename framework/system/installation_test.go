package system

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spotdrill/spotdrill/framework/objects"
	appsv1 "k8s.io/api/apps/v1"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
)

// backends are an API server and LocalStack with nothing in them. They note what changes something.
type backends struct {
	mu      sync.Mutex
	changes []string
}

func (b *backends) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes = append(b.changes, fmt.Sprintf(format, args...))
}

// taken returns what was noted since the last call.
func (b *backends) taken() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := strings.Join(b.changes, ", ")
	b.changes = nil
	return out
}

func (b *backends) kubernetes(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answer := map[string]string{
		"/api":    `{"kind":"APIVersions","apiVersion":"v1","versions":["v1"]}`,
		"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["get","list","delete"]}]}`,
		"/api/v1/namespaces/kube-system/configmaps": `{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"of-some-manifest"},"data":{"objects":"kept"}}]}`,
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[]}`,
	}[r.URL.Path]
	switch {
	case r.URL.Path == "/api/v1/namespaces/kube-system/configmaps/spotdrill-state":
		b.note("labels removed")
		answer = `{"kind":"ConfigMap","apiVersion":"v1","data":{"labels":"{}"}}`
	case strings.HasSuffix(r.URL.Path, "/permitted"):
		b.note("permitted set")
	case r.URL.Path == "/api/v1/namespaces/kube-system/configmaps" && r.Method == http.MethodGet:
		b.note("leftovers looked for")
	case answer == "" || r.Method == http.MethodPost:
		w.WriteHeader(http.StatusNotFound)
		answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	_, _ = io.WriteString(w, answer)
}

func (b *backends) aws(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	switch action := form.Get("Action"); action {
	case "DeleteStack":
		b.note("stack %s deleted", form.Get("StackName"))
		_, _ = io.WriteString(w, `<DeleteStackResponse/>`)
	default:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `<ErrorResponse><Error><Code>ValidationError</Code><Message>it does not exist</Message></Error></ErrorResponse>`)
	}
}

// bare are the handlers of a cluster that has no node.
func bare(t *testing.T) (*Handlers, *backends) {
	t.Helper()
	b := &backends{}
	api, aws := httptest.NewServer(http.HandlerFunc(b.kubernetes)), httptest.NewServer(http.HandlerFunc(b.aws))
	t.Cleanup(api.Close)
	t.Cleanup(aws.Close)
	config := &rest.Config{Host: api.URL}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &Handlers{
		namespace: Namespace,
		name:      "test", images: map[build]string{}, launches: &Launches{},
		cluster: &cluster.Cluster{Config: config, Clientset: client}, aws: cloud.Connect(aws.URL, "eu-central-1"),
	}, b
}

func (hs *Handlers) names() string {
	var out []string
	for _, i := range hs.all {
		out = append(out, i.Name+"="+i.Handler.Name)
	}
	return strings.Join(out, " ")
}

// Several handlers can be installed. Each drill's others are removed before the next one; the one
// under test stays until another takes its place.
func TestInstallations(t *testing.T) {
	hs, b := bare(t)
	under := Installation{Name: history.UnderTest, Handler: handler.Description{Name: "mine"}}
	other := Installation{Name: history.OtherHandler, Handler: handler.Description{Name: "theirs"}}
	replaced := Installation{Name: history.UnderTest, Handler: handler.Description{Name: "another"}}
	for _, step := range []struct {
		what        string
		do          func() error
		want, there string
	}{
		{
			"the first one: what an earlier run left is removed", func() error { return hs.Install(t.Context(), under) },
			"leftovers looked for, stack spotdrill-test-second deleted, labels removed, permitted set", "=mine",
		},
		{"one next to it: nothing of the first is touched", func() error { return hs.Install(t.Context(), other) }, "", "=mine second=theirs"},
		{"a third one", func() error {
			return hs.Install(t.Context(), Installation{Name: "lane-3", Handler: handler.Description{Name: "mine"}})
		}, "", "=mine second=theirs lane-3=mine"},
		{"the same again: it is kept", func() error { return hs.Install(t.Context(), under) }, "", "=mine second=theirs lane-3=mine"},
		{"the next drill", func() error { return hs.uninstallOthers(t.Context()) }, "", "=mine"},
		{
			"a different one under test takes its place", func() error { return hs.Install(t.Context(), replaced) },
			"labels removed, permitted set", "=another",
		},
		{"one that is not there", func() error { return hs.Uninstall(t.Context(), history.OtherHandler) }, "", "=another"},
		{"the last one", func() error { return hs.Uninstall(t.Context(), history.UnderTest) }, "labels removed", ""},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := b.taken(); got != step.want {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
		if got := hs.names(); got != step.there {
			t.Errorf("%s: installed %q, want %q", step.what, got, step.there)
		}
	}
}

// What is half installed is not ready, and is removed with the queue that it may have.
func TestAnInstallationThatFailsIsRemoved(t *testing.T) {
	hs, b := bare(t)
	if err := hs.Install(t.Context(), Installation{Handler: handler.Description{Name: "mine"}}); err != nil {
		t.Fatal(err)
	}
	err := hs.Install(t.Context(), Installation{Name: history.OtherHandler, Handler: handler.Description{Name: "theirs"}, OwnQueue: true})
	if err == nil || !strings.Contains(err.Error(), "the queue of handler theirs") || errors.Is(err, ErrNotInstalled) {
		t.Fatalf("error %v", err)
	}
	if i := hs.Installed(history.OtherHandler); i == nil || i.Ready() {
		t.Fatalf("half installed: %+v", i)
	}
	b.taken()
	if err := hs.uninstallOthers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.taken(); got != "stack spotdrill-test-second deleted" || hs.names() != "=mine" {
		t.Errorf("%s; installed %s", got, hs.names())
	}
}

// A handler that does not become ready ends the run if it is the one under test.
func TestAHandlerThatCannotBeInstalled(t *testing.T) {
	rejected, err := handler.Load("nth")
	if err != nil {
		t.Fatal(err)
	}
	for name, ends := range map[string]bool{history.UnderTest: true, history.OtherHandler: false} {
		hs, _ := bare(t)
		hs.all = []*Installation{{Name: "first", Handler: handler.Description{Name: "first"}}}
		err := hs.Install(t.Context(), Installation{Name: name, Handler: rejected})
		if err == nil || errors.Is(err, ErrNotInstalled) != ends {
			t.Errorf("%q: error %v", name, err)
		}
		if i := hs.Installed(name); i == nil || i.Ready() {
			t.Errorf("%q: it is not listed for its removal, or ready: %+v", name, i)
		}
	}
}

// A handler whose pods a drill disturbed is stopped by the next Restore, and started again.
func TestReplacedPodsAreStoppedAndStartedAgain(t *testing.T) {
	hs, _ := bare(t)
	i := &Installation{Handler: handler.Description{Name: "mine"}, ready: true}
	hs.all = []*Installation{i, {Name: history.OtherHandler, ready: true}}
	if err := hs.stop(t.Context(), i, false); err != nil || i.stopped {
		t.Fatalf("one that is fine is stopped: %t, %v", i.stopped, err)
	}
	hs.ReplacePods()
	if err := hs.stop(t.Context(), i, false); err != nil || !i.stopped || i.replace {
		t.Fatalf("stopped %t, to be replaced %t, %v", i.stopped, i.replace, err)
	}
	if err := hs.onEach(t.Context(), hs.resume); err != nil || i.stopped {
		t.Errorf("not started again: stopped %t, %v", i.stopped, err)
	}
}

func TestSettingsOfAnInstallation(t *testing.T) {
	hs := &Handlers{namespace: Namespace, cluster: &cluster.Cluster{}, name: "test", images: map[build]string{}, settings: handler.Settings{QueueName: "test", QueueURL: "shared", Endpoint: "http://proxy", Image: "product:1"}}
	mine := handler.Description{Name: "mine", File: "mine.yaml"}
	hs.images[buildOf(mine)] = "mine:2"
	shared := hs.InCluster(&Installation{Handler: mine}).Settings
	if shared.Installation != history.UnderTest || shared.QueueName != "test" || shared.Image != "mine:2" {
		t.Errorf("under test: %+v", shared)
	}
	own := hs.InCluster(&Installation{Name: history.OtherHandler, OwnQueue: true, queue: cloud.Connect("http://aws", "eu-central-1")}).Settings
	if own.Installation != history.OtherHandler || own.QueueName != "test-second" || own.QueueURL == "shared" || own.Image != "product:1" {
		t.Errorf("with a queue of its own: %+v", own)
	}
	if hs.settings.QueueName != "test" || hs.settings.Installation != "" {
		t.Errorf("those of all have changed: %+v", hs.settings)
	}
}

// A handler that gets its notices from the queue may run on any worker, and read its metadata there.
func TestWhereMetadataIsServed(t *testing.T) {
	reads := func(from ...history.NoticeSource) *Installation {
		return &Installation{Handler: handler.Description{Reads: from}}
	}
	queue, metadata := history.FromQueue, history.FromMetadata
	for name, c := range map[string]struct {
		all            []*Installation
		spot, onDemand bool
		hops           string
	}{
		"none":                {nil, false, false, "1"},
		"of queues":           {[]*Installation{reads(), reads(queue)}, false, false, "1"},
		"of metadata":         {[]*Installation{reads(), reads(metadata)}, true, false, "1"},
		"of both":             {[]*Installation{reads(metadata, queue)}, true, true, "2"},
		"next to one of both": {[]*Installation{reads(metadata), reads(queue, metadata)}, true, true, "2"},
	} {
		m := (&Handlers{namespace: Namespace, all: c.all, cluster: &cluster.Cluster{}}).metadata()
		objs, err := objects.Decode(t.Context(), manifests, "manifests/metadata.yaml", m.values("i"))
		if err != nil {
			t.Fatal(err)
		}
		pod := objs[len(objs)-1].(*appsv1.DaemonSet).Spec.Template.Spec
		on := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values
		if !slices.Contains(on, "spot") || slices.Contains(on, "on-demand") != c.onDemand || !slices.Contains(pod.Containers[0].Args, "--hop-limit="+c.hops) {
			t.Errorf("%s: on %v, %v", name, on, pod.Containers[0].Args)
		}
		if m.Serves("spot") != c.spot || m.Serves("on-demand") != c.onDemand || m.Serves("control-plane") {
			t.Errorf("%s: spot %v, on-demand %v", name, m.Serves("spot"), m.Serves("on-demand"))
		}
	}
}
