package builtin

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// imdsServer is an instance metadata service in process, so that tests can run on synctest's clock.
type imdsServer struct {
	mu      sync.Mutex
	texts   map[string]string // by the path below meta-data
	token   string            // of the one session that is valid
	failing int               // requests that are answered with status
	status  int
	late    time.Duration // of each answer
	asked   []string
}

func (s *imdsServer) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/latest/")
	s.asked = append(s.asked, r.Method+" "+path)
	if s.late > 0 && !sleep(r.Context(), s.late) {
		return nil, r.Context().Err()
	}
	text := func(status int, body string) (*http.Response, error) {
		header := http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	if s.failing > 0 {
		s.failing--
		return text(s.status, "")
	}
	if r.Method == http.MethodPut {
		s.token += "x"
		return text(http.StatusOK, s.token)
	}
	if r.Header.Get("X-Aws-Ec2-Metadata-Token") != s.token {
		return text(http.StatusUnauthorized, "")
	}
	if body, ok := s.texts[strings.TrimPrefix(path, "meta-data/")]; ok {
		return text(http.StatusOK, body)
	}
	return text(http.StatusNotFound, "")
}

// set changes what a path has; empty for nothing.
func (s *imdsServer) set(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.texts, path)
	if text != "" {
		s.texts[path] = text
	}
}

func (s *imdsServer) fail(requests, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing, s.status = requests, status
}

const spotAction = `{"action":"terminate","time":"2026-01-02T03:04:05Z"}`

// looking starts a handler of the victim's node that reads the metadata, until the test ends.
func looking(t *testing.T, c *cluster, s *imdsServer) (d *dispatcher, reasonsSoFar func() []string, ready *atomic.Bool) {
	t.Helper()
	d, events := newHandler(t, c, &sqsServer{})
	options := metadataOptions("http://metadata.example")
	options.HTTPClient = s
	s.texts = map[string]string{"instance-id": victim, scheduledPath: "[]"}
	ready = new(atomic.Bool)
	md, err := openMetadata(t.Context(), options, newMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	if err != nil || md.instance != victim {
		t.Fatalf("%+v, %v", md, err)
	}
	go d.look(t.Context(), md, ready)
	var all []string
	return d, func() []string {
		all = append(all, reasons(sent(events))...)
		return all
	}, ready
}

func TestWhatTheMetadataAnnounces(t *testing.T) {
	for name, c := range map[string]struct {
		path, text string
		want       []string // the reasons of events
	}{
		"a spot interruption":      {spotPath, spotAction, []string{"SpotInterrupted", "Draining", "Drained"}},
		"a rebalance":              {rebalancePath, `{"noticeTime":"2026-01-02T03:04:05Z"}`, []string{"RebalanceRecommended"}},
		"a scheduled event":        {scheduledPath, `[{"EventId":"e-1","Code":"instance-stop","State":"active"}]`, []string{"ScheduledChange", "Draining", "Drained"}},
		"one that is over":         {scheduledPath, `[{"EventId":"e-1","Code":"instance-stop","State":"completed"}]`, nil},
		"nothing":                  {spotPath, "", nil},
		"what is not JSON":         {spotPath, "soon", nil},
		"a spot notice to a pause": {spotPath, `{"action":"hibernate","time":"2026-01-02T03:04:05Z"}`, []string{"SpotInterrupted", "Draining", "Drained"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &imdsServer{}
				_, seen, _ := looking(t, newCluster(spotNode("spot-1", victim), pod("web")), s)
				s.set(c.path, c.text)
				time.Sleep(10 * metadataEvery) // it stays announced
				if got := seen(); !slices.Equal(got, c.want) {
					t.Errorf("events %v, want %v", got, c.want)
				}
			})
		})
	}
}

// Two notices are two, also if the first one was settled.
func TestEachNoticeInTheMetadataIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(spotNode("spot-1", victim), pod("web")), &imdsServer{}
		_, seen, _ := looking(t, c, s)
		s.set(rebalancePath, `{"noticeTime":"2026-01-02T03:04:05Z"}`)
		time.Sleep(2 * metadataEvery)
		s.set(spotPath, spotAction)
		time.Sleep(2 * metadataEvery)
		c.restore(t, "spot-1")
		s.set(spotPath, strings.ReplaceAll(spotAction, "05Z", "06Z"))
		time.Sleep(2 * metadataEvery)
		want := []string{"RebalanceRecommended", "SpotInterrupted", "Draining", "Drained", "SpotInterrupted", "Draining", "Drained"}
		if got := seen(); !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	})
}

func TestAMetadataServiceThatFailsIsAskedAgain(t *testing.T) {
	for name, fail := range map[string]func(*imdsServer){
		"HTTP 500":             func(s *imdsServer) { s.fail(9, http.StatusInternalServerError) },
		"refused":              func(s *imdsServer) { s.fail(9, http.StatusUnauthorized) },
		"another session only": func(s *imdsServer) { s.mu.Lock(); s.token = "forgotten"; s.mu.Unlock() },
		"late":                 func(s *imdsServer) { s.mu.Lock(); s.late = time.Second; s.mu.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &imdsServer{}
				_, seen, ready := looking(t, newCluster(spotNode("spot-1", victim), pod("web")), s)
				time.Sleep(metadataEvery + time.Millisecond)
				if !ready.Load() {
					t.Error("it is not ready after the first look")
				}
				fail(s)
				s.set(spotPath, spotAction)
				time.Sleep(20 * time.Second)
				if got := seen(); !slices.Contains(got, "Drained") {
					t.Errorf("events %v after requests %v", got, s.asked)
				}
			})
		})
	}
}

// What could not be recorded on the node is tried again.
func TestANoticeInTheMetadataIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newCluster(), &imdsServer{}
		d, seen, _ := looking(t, c, s)
		s.set(spotPath, spotAction)
		time.Sleep(5 * metadataEvery)
		if got := seen(); len(got) > 0 {
			t.Errorf("without its node: %v", got)
		}
		node := spotNode("spot-1", victim)
		if err := c.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
		if err := d.nodes.Add(node); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * metadataEvery)
		if got := seen(); !slices.Contains(got, "Drained") {
			t.Errorf("when it is known: %v", got)
		}
	})
}

func TestAHandlerReadsAQueueOrMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"a queue":               {Config{QueueName: "drill", Workers: 1}, ""},
		"metadata":              {Config{Metadata: "http://169.254.169.254", Node: "spot-1", Workers: 1}, ""},
		"neither":               {Config{Workers: 1}, "queue is missing"},
		"both":                  {Config{QueueName: "drill", Metadata: "http://169.254.169.254", Node: "spot-1", Workers: 1}, "not both"},
		"metadata of no node":   {Config{Metadata: "http://169.254.169.254", Workers: 1}, "name of the node"},
		"a queue, and its node": {Config{QueueName: "drill", Node: "spot-1", Workers: 1}, ""},
	} {
		err := c.config.validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A handler of a queue drains every node, also where NODE_NAME happens to be set.
	if only := (Config{QueueName: "drill", Node: "spot-1"}).only(); only != "" {
		t.Errorf("it would drain %s only", only)
	}
}
