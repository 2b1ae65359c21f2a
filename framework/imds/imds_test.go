package imds

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	imdsclient "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// client is a client of a service, in the network namespace of its node or in another one.
type client struct {
	t       *testing.T
	service *Server
	url     string
	control string
}

func newClient(t *testing.T, hopLimit int, local bool) *client {
	t.Helper()
	s := NewServer(Instance{ID: "i-1", Type: "m5.large", Zone: "us-west-2b", Region: "us-west-2", LifeCycle: "spot", Hostname: "node-1", IP: "10.0.0.9", Account: "000000000000"}, hopLimit, func(net.IP) bool { return local })
	data, control := httptest.NewServer(s), httptest.NewServer(s.Control())
	t.Cleanup(data.Close)
	t.Cleanup(control.Close)
	return &client{t, s, data.URL, control.URL}
}

func (c *client) do(method, url, body string, header ...string) (status int, text string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := (&http.Client{Timeout: 300 * time.Millisecond}).Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(read)
}

func (c *client) token(ttl string) (int, string) {
	return c.do(http.MethodPut, c.url+"/latest/api/token", "", "X-aws-ec2-metadata-token-ttl-seconds", ttl)
}

func (c *client) get(path string) (int, string) {
	c.t.Helper()
	_, token := c.token("60")
	return c.do(http.MethodGet, c.url+"/latest/"+path, "", "X-aws-ec2-metadata-token", token)
}

func (c *client) announce(a Announced) {
	c.t.Helper()
	body, err := json.Marshal(a)
	if err != nil {
		c.t.Fatal(err)
	}
	if status, said := c.do(http.MethodPut, c.control+"/announced", string(body)); status != http.StatusOK {
		c.t.Fatal(status, said)
	}
}

// A request needs a session that has not ended, and a session has a time to live from one second
// to six hours.
func TestSessions(t *testing.T) {
	c := newClient(t, 1, true)
	for ttl, want := range map[string]int{"1": 200, "21600": 200, "0": 400, "21601": 400, "-1": 400, "soon": 400, "": 400} {
		if status, token := c.token(ttl); status != want || (status == http.StatusOK) != (token != "") {
			t.Errorf("ttl %q: %d %q", ttl, status, token)
		}
	}
	const path = "/latest/meta-data/instance-id"
	if status, _ := c.do(http.MethodGet, c.url+path, ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	if status, _ := c.do(http.MethodGet, c.url+path, "", tokenHeader, "guessed"); status != http.StatusUnauthorized {
		t.Errorf("with a guessed token: %d", status)
	}
	if status, _ := c.do(http.MethodPut, c.url+"/latest/api/token", "", ttlHeader, "60", "X-Forwarded-For", "10.1.1.1"); status != http.StatusForbidden {
		t.Errorf("through a proxy: %d", status)
	}
	if status, _ := c.do(http.MethodPost, c.url+path, ""); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
	_, token := c.token("60")
	if status, id := c.do(http.MethodGet, c.url+path, "", tokenHeader, token); status != http.StatusOK || id != "i-1" {
		t.Errorf("%d %q", status, id)
	}
	now := time.Now()
	c.service.now = func() time.Time { return now.Add(61 * time.Second) }
	if status, _ := c.do(http.MethodGet, c.url+path, "", tokenHeader, token); status != http.StatusUnauthorized {
		t.Errorf("after its end: %d", status)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	c := newClient(t, 1, true)
	r := httptest.NewRequest(http.MethodPut, "/latest/api/token", http.NoBody)
	r.Header.Set(ttlHeader, "60")
	for range maxSessions + 10 {
		c.service.session(r)
	}
	if n := len(c.service.sessions); n > maxSessions {
		t.Errorf("%d sessions are kept", n)
	}
}

// The answer with a token does not reach a pod with a network namespace of its own, unless it may
// make two hops.
func TestHopLimit(t *testing.T) {
	for _, c := range []struct {
		limit int
		local bool
		want  int
	}{{1, true, 200}, {1, false, 0}, {2, false, 200}, {2, true, 200}} {
		if status, said := newClient(t, c.limit, c.local).token("60"); status != c.want || status == 0 && !strings.Contains(said, "Timeout") {
			t.Errorf("%+v: %d %s", c, status, said)
		}
	}
}

func TestMetadata(t *testing.T) {
	c := newClient(t, 1, true)
	at := time.Date(2026, 9, 1, 8, 22, 0, 0, time.FixedZone("", 7200))
	const document = `{"accountId":"000000000000","availabilityZone":"us-west-2b","instanceId":"i-1","instanceType":"m5.large","privateIp":"10.0.0.9","region":"us-west-2"}`
	check := func(when string, want map[string]string) {
		t.Helper()
		for path, text := range want {
			status, got := c.get(path)
			if found := status == http.StatusOK; found != (text != "") || got != text || !found && status != http.StatusNotFound {
				t.Errorf("%s: %s: %d %s, want %s", when, path, status, got, text)
			}
		}
	}
	check("nothing is announced", map[string]string{
		"meta-data/instance-life-cycle": "spot", "meta-data/placement/region": "us-west-2", "meta-data/local-hostname": "node-1",
		"dynamic/instance-identity/document": document, "meta-data/public-hostname": "", "user-data": "",
		SpotPath: "", TerminationPath: "", RebalancePath: "", ScheduledPath: "[]", "meta-data/placement/": "availability-zone\nregion",
		"meta-data/spot": "", "meta-data/events": "maintenance/",
	})
	c.announce(Announced{Spot: &SpotAction{Action: "terminate", Time: at}, Rebalance: &at, Scheduled: []ScheduledEvent{{ID: "e-1", Code: "instance-retirement", NotBefore: at, NotAfter: at.Add(time.Hour), State: "active"}}})
	check("all is announced", map[string]string{
		SpotPath: `{"action":"terminate","time":"2026-09-01T06:22:00Z"}`, TerminationPath: "2026-09-01T06:22:00Z",
		RebalancePath: `{"noticeTime":"2026-09-01T06:22:00Z"}`, "meta-data/spot": "instance-action\ntermination-time",
		ScheduledPath: `[{"Code":"instance-retirement","Description":"instance retirement","EventId":"e-1","NotAfter":"01 Sep 2026 07:22:00 GMT","NotBefore":"01 Sep 2026 06:22:00 GMT","State":"active"}]`,
	})
	c.announce(Announced{Spot: &SpotAction{Action: "stop", Time: at}})
	check("it is to be stopped", map[string]string{SpotPath: `{"action":"stop","time":"2026-09-01T06:22:00Z"}`, TerminationPath: "", RebalancePath: ""})
	c.announce(Announced{})
	check("all is taken back", map[string]string{SpotPath: "", RebalancePath: "", ScheduledPath: "[]"})
}

func TestFaults(t *testing.T) {
	c := newClient(t, 1, true)
	begin := func(f fault.Fault) {
		t.Helper()
		c.do(http.MethodDelete, c.control+"/faults", "")
		f.On, f.Name, f.Node = history.OnMetadata, "outage", "victim"
		f.For = cmp.Or(f.For, strict.Duration(time.Minute))
		body, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if status, said := c.do(http.MethodPost, c.control+"/faults", string(body)); status != http.StatusOK {
			t.Fatal(status, said)
		}
	}
	_, token := c.token("60")
	ask := func() (int, string) {
		return c.do(http.MethodGet, c.url+"/latest/meta-data/instance-id", "", tokenHeader, token)
	}
	for name, x := range map[string]struct {
		fault fault.Fault
		want  int
		said  string
	}{
		"it refuses every session": {fault.Fault{Type: history.Unauthorized}, 401, ""},
		"it is broken":             {fault.Fault{Type: history.ServerError, Status: 500}, 500, ""},
		"it is gone":               {fault.Fault{Type: history.Reset}, 0, "EOF"},
		"it is slow":               {fault.Fault{Type: history.Delay, By: strict.Duration(50 * time.Millisecond)}, 200, "i-1"},
		"it is too slow":           {fault.Fault{Type: history.Delay, By: strict.Duration(time.Second)}, 0, "Timeout"},
	} {
		begin(x.fault)
		if status, said := ask(); status != x.want || !strings.Contains(said, x.said) {
			t.Errorf("%s: %d %s", name, status, said)
		}
	}
	c.do(http.MethodDelete, c.control+"/faults", "")
	if status, _ := ask(); status != http.StatusOK {
		t.Errorf("the fault was taken back: %d", status)
	}
	begin(fault.Fault{Type: history.Delay, By: strict.Duration(time.Millisecond)})
	ask()
	c.service.mu.Lock()
	defer c.service.mu.Unlock()
	if q := c.service.requests[len(c.service.requests)-1]; q.Fault != "outage" || q.Status != http.StatusOK {
		t.Errorf("what a slow service answers is recorded as %+v", q)
	}
}

// A poll that meets a fault again and again is one hit.
func TestWhatBecomesOfAFaultIsRecorded(t *testing.T) {
	c := newClient(t, 1, true)
	_, token := c.token("60")
	if status, said := c.do(http.MethodPost, c.control+"/faults", `{"on":"metadata","name":"outage","node":"victim","type":"error","status":500,"for":200000000}`); status != http.StatusOK {
		t.Fatal(status, said)
	}
	for _, path := range []string{SpotPath, SpotPath, RebalancePath} {
		if status, _ := c.do(http.MethodGet, c.url+"/latest/"+path, "", tokenHeader, token); status != http.StatusInternalServerError {
			t.Errorf("%s: %d", path, status)
		}
	}
	want := []string{"fault.begun outage error ", "fault.hit outage error " + SpotPath, "fault.hit outage error " + RebalancePath, "fault.ended outage time "}
	var got []string
	for began := time.Now(); len(got) < len(want) && time.Since(began) < 5*time.Second; time.Sleep(10 * time.Millisecond) {
		_, text := c.do(http.MethodGet, c.control+"/faults", "")
		var all []Happened
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, h := range all {
			if h.At.IsZero() {
				t.Errorf("%+v has no time", h)
			}
			got = append(got, fmt.Sprintf("%s %s %s%s %s", h.Event.Kind, h.Event.Step(), h.Event.FaultType(), h.Event.FaultEnd(), h.Event.Resource))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
	if status, _ := c.do(http.MethodGet, c.url+"/latest/"+SpotPath, "", tokenHeader, token); status != http.StatusNotFound {
		t.Errorf("when it is over: %d", status)
	}
}

// What a poll gets again and again is one record.
func TestRequestsAreRecorded(t *testing.T) {
	c := newClient(t, 1, true)
	_, token := c.token("60")
	poll := func() { c.do(http.MethodGet, c.url+"/latest/"+SpotPath, "", tokenHeader, token) }
	poll()
	c.do(http.MethodGet, c.url+"/latest/"+RebalancePath, "", tokenHeader, token)
	scheduled := func() { c.do(http.MethodGet, c.url+"/latest/"+ScheduledPath, "", tokenHeader, token) }
	scheduled() // it is always there, and mostly empty
	poll()
	c.announce(Announced{Spot: &SpotAction{Action: "terminate", Time: time.Now()}, Scheduled: []ScheduledEvent{{ID: "1"}}})
	poll()
	scheduled()
	var got []Request
	_, text := c.do(http.MethodGet, c.control+"/requests", "")
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := []struct {
		path          string
		status, count int
		announces     bool
	}{
		{"api/token", 200, 1, false},
		{SpotPath, 404, 2, false},
		{RebalancePath, 404, 1, false},
		{ScheduledPath, 200, 1, false},
		{SpotPath, 200, 1, true},
		{ScheduledPath, 200, 1, true},
	}
	if len(got) != len(want) {
		t.Fatalf("%d records: %+v", len(got), got)
	}
	for i, w := range want {
		if g := got[i]; g.Path != w.path || g.Status != w.status || g.Count != w.count || g.Announces != w.announces || g.First.After(g.Last) {
			t.Errorf("record %d: %+v, want %+v", i, g, w)
		}
	}
	c.do(http.MethodDelete, c.control+"/requests", "")
	if _, text := c.do(http.MethodGet, c.control+"/requests", ""); strings.TrimSpace(text) != "null" {
		t.Errorf("they were forgotten: %s", text)
	}
}

func TestControlIsStrict(t *testing.T) {
	c := newClient(t, 1, true)
	for _, x := range []struct{ method, path, body string }{
		{http.MethodPut, "/announced", `{"spots":{}}`},
		{http.MethodPost, "/faults", `{"status":"x"}`},
		{http.MethodPost, "/faults", `{"on":"metadata","name":"f","node":"victim","type":"reset"}`},
		{http.MethodPost, "/faults", `{"on":"queue","name":"f","type":"reset","for":1}`},
	} {
		if status, said := c.do(x.method, c.control+x.path, x.body); status != http.StatusBadRequest || !strings.Contains(said, x.path) {
			t.Errorf("%s: %d %s", x.path, status, said)
		}
	}
	if status, _ := c.do(http.MethodPut, c.url+"/announced", "{}"); status == http.StatusOK {
		t.Error("the control is reachable where the metadata is")
	}
	if !errors.Is(serve(t.Context(), map[string]http.Handler{"nowhere:0": nil}), nil) {
		return
	}
	t.Error("it listens nowhere")
}

// The handler under test is on the same node, and reaches the control.
func TestAHandlerCannotControlItsMetadata(t *testing.T) {
	t.Parallel()
	cfg := Config{Control: "10.0.0.1:8169", Token: "secret"}
	control := NewServer(Instance{}, 1, ownAddress).at(cfg)[cfg.Control]
	for _, attack := range []string{"PUT /announced", "POST /faults", "GET /faults", "DELETE /faults", "GET /requests", "DELETE /requests", "POST /healthz"} {
		method, path, _ := strings.Cut(attack, " ")
		for token, want := range map[string]int{"": http.StatusForbidden, "guess": http.StatusForbidden} {
			request := httptest.NewRequest(method, path, strings.NewReader("{}"))
			request.Header.Set(guard.Header, token)
			answer := httptest.NewRecorder()
			control.ServeHTTP(answer, request)
			if answer.Code != want {
				t.Errorf("%s with token %q: status %d", attack, token, answer.Code)
			}
		}
	}
}

// A client of AWS's SDKs finds the credentials of the instance's role here.
func TestTheCredentialsOfTheRole(t *testing.T) {
	c := newClient(t, 2, false)
	c.service.instance.AccessKey = "spotdrill-second"
	status, name := c.get("meta-data/iam/security-credentials/")
	if status != http.StatusOK || name != role {
		t.Fatal(status, name)
	}
	client := imdsclient.New(imdsclient.Options{Endpoint: c.url})
	got, err := ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = client }).Retrieve(t.Context())
	if err != nil || got.AccessKeyID != "spotdrill-second" || !got.CanExpire || time.Until(got.Expires) < time.Minute {
		t.Errorf("%+v, %v", got, err)
	}
}
