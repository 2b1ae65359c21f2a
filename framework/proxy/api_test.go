package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

const token = "a-token-that-must-not-be-kept"

// apiServer is an API server with one node. It counts the calls that took effect.
type apiServer struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int // by method and path
	auth  []string
	node  corev1.Node
	tell  chan struct{} // each sends an event to a watch
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{calls: map[string]int{}, tell: make(chan struct{})}
	s.node = corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls[r.Method+" "+r.URL.Path]++
	s.auth = append(s.auth, r.Header.Get("Authorization"))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-s.tell:
				_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": s.node})
				_ = http.NewResponseController(w).Flush()
			}
		}
	}
	if strings.HasSuffix(r.URL.Path, "/eviction") {
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
		return
	}
	_ = json.NewEncoder(w).Encode(s.node)
}

func (s *apiServer) took(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

func rootsOf(s *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// guarded is an API server behind a proxy, and a client of client-go before it.
type guarded struct {
	server *apiServer
	proxy  *Proxy
	client *kubernetes.Clientset
	rec    *history.Recorder
	dir    string
}

func newGuarded(t *testing.T, protocol string) *guarded {
	t.Helper()
	p := &guarded{server: newAPIServer(t)}
	upstream, err := url.Parse(p.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.proxy = New(&url.URL{Scheme: "http", Host: "127.0.0.1:1"})
	api := p.proxy.API(upstream, rootsOf(p.server.Server))
	front := httptest.NewUnstartedServer(api)
	front.EnableHTTP2 = protocol == "HTTP/2.0"
	front.Config.ConnContext = api.ConnContext
	front.StartTLS()
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	p.rec, p.dir = recorderIn(t)
	collectInto(t, p.proxy, p.rec)
	cfg := &restclient.Config{Host: front.URL, BearerToken: token, QPS: -1, TLSClientConfig: restclient.TLSClientConfig{CAData: pemOf(front.Certificate())}}
	if protocol != "HTTP/2.0" {
		cfg.NextProtos = []string{"http/1.1"}
	}
	p.client, err = kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *guarded) begin(t *testing.T, f fault.Fault) {
	t.Helper()
	f.On, f.Name = history.OnAPI, "f"
	if err := p.proxy.begin(f); err != nil {
		t.Fatal(err)
	}
}

func (p *guarded) mark(ctx context.Context) error {
	_, err := p.client.CoreV1().Nodes().Patch(ctx, "worker", types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":true,"taints":[{"key":"example.com/disrupted","effect":"NoSchedule"}]}}`), metav1.PatchOptions{})
	return err
}

func (p *guarded) evict(ctx context.Context) error {
	return p.client.PolicyV1().Evictions("app").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "web"}})
}

// call awaits the record of a call.
func (p *guarded) call(t *testing.T, verb, resource string) history.Event {
	t.Helper()
	return awaitEvent(t, p.rec, func(e history.Event) bool {
		return e.Kind == history.APICall && e.Action == verb && e.Resource == resource
	})
}

const patchWorker = "PATCH /api/v1/nodes/worker"

// inEachProtocol runs a test with a client of HTTP/1.1 and one of HTTP/2.
func inEachProtocol(t *testing.T, test func(*testing.T, *guarded)) {
	t.Helper()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) { t.Parallel(); test(t, newGuarded(t, protocol)) })
	}
}

func TestACallToTheAPIServerIsForwardedAndRecorded(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, p *guarded) {
		if err := p.mark(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.evict(t.Context()); err != nil {
			t.Fatal(err)
		}
		mark := p.call(t, "patch", history.NodesResource)
		if mark.Status != 200 || mark.Node != "worker" || !slices.Equal(mark.Marks(), []string{"unschedulable", "example.com/disrupted"}) || mark.IP != "127.0.0.1" {
			t.Errorf("recorded %+v", mark)
		}
		if took := mark.Numbers[history.Took]; took <= 0 || took > 5 {
			t.Errorf("it took %v s", took)
		}
		if e := p.call(t, "create", history.EvictionsResource); e.Status != 201 || e.Pod != "app/web" || len(e.Marks()) > 0 || e.Fault != "" {
			t.Errorf("recorded %+v", e)
		}
		if p.server.auth[0] != "Bearer "+token {
			t.Errorf("the API server got the credentials %q", p.server.auth[0])
		}
		kept, err := os.ReadFile(filepath.Join(p.dir, history.EventsFile))
		if err != nil || strings.Contains(string(kept), token) {
			t.Errorf("the history has the token, or cannot be read (%v)", err)
		}
	})
}

func TestAWatchGoesThroughAtOnceAndEndsWithItsClient(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, p *guarded) {
		ctx, cancel := context.WithCancel(t.Context())
		w, err := p.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if e := p.call(t, "watch", history.NodesResource); e.Status != 200 {
			t.Errorf("recorded %+v", e)
		}
		p.server.tell <- struct{}{}
		select {
		case e := <-w.ResultChan():
			if node, ok := e.Object.(*corev1.Node); !ok || node.Name != "worker" {
				t.Errorf("the watch delivered %+v", e)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("the watch delivered nothing")
		}
		late := newRecorder(t)
		collectInto(t, p.proxy, late)
		awaitEvent(t, late, func(e history.Event) bool {
			return e.Kind == history.APIWatching && e.Resource == history.NodesResource
		})
		cancel()
		for deadline := time.Now().Add(5 * time.Second); len(p.proxy.api.watches.present()) > 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the watch goes on without its client")
			}
		}
	})
}

func TestARefusalOfTheAPIServer(t *testing.T) {
	for name, c := range map[string]struct {
		fault  fault.Fault
		is     func(error) bool
		status int
	}{
		"a conflict":     {fault.Fault{Type: history.Conflict}, apierrors.IsConflict, 409},
		"denied":         {fault.Fault{Type: history.Denied}, apierrors.IsForbidden, 403},
		"throttled":      {fault.Fault{Type: history.Throttle}, apierrors.IsTooManyRequests, 429},
		"internal error": {fault.Fault{Type: history.ServerError, Status: 500}, apierrors.IsInternalError, 500},
		"unavailable":    {fault.Fault{Type: history.ServerError, Status: 503}, apierrors.IsServiceUnavailable, 503},
	} {
		t.Run(name, func(t *testing.T) {
			p := newGuarded(t, "HTTP/2.0")
			c.fault.Count, c.fault.Verbs, c.fault.Resources = 1, []string{"patch"}, []string{"nodes"}
			p.begin(t, c.fault)
			if _, err := p.client.CoreV1().Nodes().Get(t.Context(), "worker", metav1.GetOptions{}); err != nil {
				t.Fatalf("another verb: %v", err)
			}
			if err := p.mark(t.Context()); !c.is(err) {
				t.Errorf("client-go reports %v", err)
			}
			if n := p.server.took(patchWorker); n != 0 {
				t.Error("the call took effect")
			}
			if e := p.call(t, "patch", history.NodesResource); e.Status != c.status || e.Fault != "f" || len(e.Marks()) == 0 {
				t.Errorf("recorded %+v", e)
			}
			awaitEvent(t, p.rec, func(e history.Event) bool {
				return e.Kind == history.FaultHit && e.Step() == "f" && e.Action == "patch" && e.Node == "worker"
			})
			awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultEnded && e.FaultEnd() == "count" })
			if err := p.mark(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestRetryAfterIsWhatClientGoWaitsFor(t *testing.T) {
	p := newGuarded(t, "HTTP/2.0")
	p.begin(t, fault.Fault{Type: history.Throttle, Count: 1, RetryAfter: strict.Duration(time.Second), Resources: []string{"pods/eviction"}})
	began := time.Now()
	if err := p.evict(t.Context()); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("client-go waited %s", waited)
	}
	if e := p.call(t, "create", history.EvictionsResource); e.Status != 429 || e.Numbers[history.RetryAfter] != 1 {
		t.Errorf("recorded %+v", e)
	}
}

func TestAResetAndALostAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		fault  history.FaultType
		effect int
		status int
	}{
		"reset":       {history.Reset, 0, 0},
		"lost answer": {history.LostAnswer, 1, 200},
	} {
		t.Run(name, func(t *testing.T) {
			inEachProtocol(t, func(t *testing.T, p *guarded) {
				p.begin(t, fault.Fault{Type: c.fault, Count: 1, Verbs: []string{"patch"}})
				var network *url.Error
				if err := p.mark(t.Context()); !errors.As(err, &network) || network.Timeout() {
					t.Errorf("client-go reports %v", err)
				}
				if n := p.server.took(patchWorker); n != c.effect {
					t.Errorf("the call took effect %d times", n)
				}
				if e := p.call(t, "patch", history.NodesResource); e.Status != c.status || e.Fault != "f" {
					t.Errorf("recorded %+v", e)
				}
				if err := p.mark(t.Context()); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}

func TestASlowAPIServer(t *testing.T) {
	p := newGuarded(t, "HTTP/2.0")
	p.begin(t, fault.Fault{Type: history.Delay, By: strict.Duration(300 * time.Millisecond), Count: 1})
	began := time.Now()
	if err := p.mark(t.Context()); err != nil || time.Since(began) < 300*time.Millisecond {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	if e := p.call(t, "patch", history.NodesResource); e.Numbers[history.Took] < 0.3 {
		t.Errorf("recorded %+v", e)
	}
}

// What is cut off waits until its client gives up. Other calls of the same connection go
// on, and no reset wakes it unless the fault requires it.
func TestACutOffCall(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, p *guarded) {
		p.begin(t, fault.Fault{Type: history.BlackHole, Silent: true, For: strict.Duration(time.Second), Verbs: []string{"patch"}})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- p.mark(ctx) }()
		awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultHit })
		if _, err := p.client.CoreV1().Nodes().Get(t.Context(), "worker", metav1.GetOptions{}); err != nil {
			t.Errorf("another call: %v", err)
		}
		awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultEnded })
		if err := <-gaveUp; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("client-go reports %v", err)
		}
		if e := p.call(t, "patch", history.NodesResource); e.Status != 0 || e.Numbers[history.Took] < 1.9 {
			t.Errorf("recorded %+v", e)
		}
		if n := p.server.took(patchWorker); n != 0 {
			t.Error("the call took effect")
		}
	})
}

func TestACutOffCallThatIsResetAtTheEnd(t *testing.T) {
	p := newGuarded(t, "HTTP/2.0")
	p.begin(t, fault.Fault{Type: history.BlackHole, For: strict.Duration(time.Second), Verbs: []string{"patch"}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := p.mark(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("client-go reports %v", err)
	}
}

// What a watch shows of a resource comes when the fault is over; another resource's comes at once.
func TestAWatchIsStale(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, p *guarded) {
		w, err := p.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.call(t, "watch", history.NodesResource)
		delivered := func() time.Duration {
			began := time.Now()
			p.server.tell <- struct{}{}
			<-w.ResultChan()
			return time.Since(began)
		}
		const lasts = 500 * time.Millisecond
		p.begin(t, fault.Fault{Type: history.Stale, Resources: []string{"pods"}, For: strict.Duration(lasts)})
		if took := delivered(); took > lasts/2 {
			t.Errorf("an event of another resource came after %s", took)
		}
		awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultEnded })
		p.begin(t, fault.Fault{Type: history.Stale, Resources: []string{"nodes"}, For: strict.Duration(lasts)})
		if took := delivered(); took < lasts/2 {
			t.Errorf("an event came after %s, while the watch was stale", took)
		}
		awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultHit && e.Resource == history.NodesResource })
		if took := delivered(); took > lasts/2 {
			t.Errorf("when the fault is over, an event came after %s", took)
		}
	})
}

// The client of a stale watch can leave: nothing waits for the end of the fault then.
func TestAStaleWatchEndsWithItsClient(t *testing.T) {
	p := newGuarded(t, "HTTP/2.0")
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := p.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	p.begin(t, fault.Fault{Type: history.Stale, For: strict.Duration(time.Hour)})
	p.server.tell <- struct{}{}
	awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultHit })
	cancel()
	for deadline := time.Now().Add(5 * time.Second); len(p.proxy.api.watches.present()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the watch goes on without its client")
		}
	}
}

func TestACallThatIsHeldReachesTheAPIServerLate(t *testing.T) {
	p := newGuarded(t, "HTTP/2.0")
	p.begin(t, fault.Fault{Type: history.Held, By: strict.Duration(time.Second), Count: 1})
	marked := make(chan error, 1)
	go func() { marked <- p.mark(t.Context()) }()
	awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultHit })
	if p.server.took(patchWorker) != 0 {
		t.Error("the call was forwarded while it was held")
	}
	if err := <-marked; err != nil || p.server.took(patchWorker) != 1 {
		t.Errorf("%v, forwarded %d times", err, p.server.took(patchWorker))
	}
}

// The second patch of that node is the one; neither a patch of another node nor a read of it counts.
func TestAFaultOfTheAPIServerStartsAtACall(t *testing.T) {
	p := newGuarded(t, "HTTP/2.0")
	p.begin(t, fault.Fault{Type: history.Conflict, At: "patch nodes worker #2"})
	patch := func(node string) error {
		_, err := p.client.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
		return err
	}
	if _, err := p.client.CoreV1().Nodes().Get(t.Context(), "worker", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, node := range []string{"other", "worker", "other", "worker", "worker"} {
		if err := patch(node); apierrors.IsConflict(err) != (i == 3) {
			t.Errorf("patch %d, of %s: %v", i+1, node, err)
		}
	}
	awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultEnded && e.FaultEnd() == "count" })
}

// A fault ends the watches that run, and those that begin while it lasts. Its count bounds
// how many.
func TestAWatchIsEnded(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, p *guarded) {
		open := func() <-chan struct{} {
			w, err := p.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for e := range w.ResultChan() {
					if e.Type == "ERROR" && t.Context().Err() == nil {
						t.Errorf("the watch delivered %+v", e.Object)
					}
				}
			}()
			return ended
		}
		running := open()
		p.call(t, "watch", history.NodesResource)
		p.begin(t, fault.Fault{Type: history.WatchEnded, Count: 2, Resources: []string{"nodes"}})
		for _, ended := range []<-chan struct{}{running, open()} {
			select {
			case <-ended:
			case <-time.After(5 * time.Second):
				t.Fatal("the watch goes on")
			}
		}
		awaitEvent(t, p.rec, func(e history.Event) bool { return e.Kind == history.FaultEnded && e.FaultEnd() == "count" })
		select {
		case <-open():
			t.Error("a third watch was ended")
		case <-time.After(100 * time.Millisecond):
		}
	})
}

// A client that calls without a pause leaves as many records as one that calls five times a
// second, and none of its calls is lost.
func TestCallsThatAreTheSameAreCounted(t *testing.T) {
	p := newGuarded(t, "HTTP/2.0")
	const calls = 200
	for range calls {
		_ = p.mark(t.Context())
	}
	if _, err := p.client.CoordinationV1().Leases("app").Get(t.Context(), "leader", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	lease := awaitEvent(t, p.rec, func(e history.Event) bool { return e.Resource == history.LeasesResource })
	if lease.Kind != history.APIFolded || lease.Numbers[history.Calls] != 1 || lease.Object != "app/leader" {
		t.Errorf("a renewed lease is recorded as %+v", lease)
	}
	single, total := 0, 0
	for _, e := range p.rec.Events() {
		switch {
		case e.Kind == history.APICall && e.Action == "patch":
			single, total = single+1, total+1
		case e.Kind == history.APIFolded && e.Action == "patch":
			total += int(e.Numbers[history.Calls])
			if e.Numbers[history.Within] <= 0 || e.Numbers[history.Within] > 2 {
				t.Errorf("counted within %v s", e.Numbers[history.Within])
			}
		}
	}
	if total != calls || single > 60 {
		t.Errorf("%d recorded one by one, %d in all", single, total)
	}
}

// A proxy that cannot reach the API server fails the harness, not the handler.
func TestAProxyThatFailsIsNotTheHandlersFault(t *testing.T) {
	p := New(&url.URL{Scheme: "http", Host: "127.0.0.1:1"})
	api := p.API(&url.URL{Scheme: "https", Host: "127.0.0.1:1"}, x509.NewCertPool())
	front := httptest.NewTLSServer(api)
	defer front.Close()
	admin := httptest.NewServer(p.Admin())
	defer admin.Close()
	body, err := http.Get(admin.URL + "/records")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Body.Close()
	rec := newRecorder(t)
	collected := make(chan error, 1)
	go func() { collected <- Collect(t.Context(), nil, body.Body, rec.Clock(), rec) }()
	resp, err := front.Client().Get(front.URL + "/api/v1/nodes")
	if err != nil || resp.StatusCode != http.StatusBadGateway {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	select {
	case err := <-collected:
		if err == nil || !strings.Contains(err.Error(), "did not reach the API server") {
			t.Errorf("collecting ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("collecting goes on")
	}
	if health, _ := http.Get(admin.URL + "/healthz"); health.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the proxy reports that it is healthy: %d", health.StatusCode)
	}
}

func TestTheProxyChecksTheServersCertificate(t *testing.T) {
	server := newAPIServer(t)
	upstream, _ := url.Parse(server.URL)
	api := New(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}).API(upstream, x509.NewCertPool())
	var unknown *tls.CertificateVerificationError
	if err := api.ready(t.Context()); !errors.As(err, &unknown) {
		t.Errorf("the proxy trusts any server: %v", err)
	}
}
