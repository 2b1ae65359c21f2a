package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/prober/probereport"
)

// runProbe runs spotdrill probe as a shell would.
func runProbe(ctx context.Context, args ...string) (stdout string, code int, err error) {
	cmd := newRoot()
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetArgs(append([]string{"probe"}, args...))
	err = cmd.ExecuteContext(ctx)
	var coded exitError
	if errors.As(err, &coded) {
		code = coded.code
	} else if err != nil {
		code = exitHarness
	}
	return out.String(), code, err
}

// startDNS answers on loopback with the code that next returns.
func startDNS(t *testing.T, next func(name string) (rcode int, silent bool)) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		rcode, silent := next(q.Question[0].Name)
		if silent {
			return
		}
		m := new(dns.Msg).SetRcode(q, rcode)
		if rcode == dns.RcodeSuccess {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(10, 0, 0, 1)})
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = server.ActivateAndServe() }()
	return conn.LocalAddr().String()
}

func healthy(string) (int, bool) { return dns.RcodeSuccess, false }

func TestProbeTellsWhatIsWrong(t *testing.T) {
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nothing := closed.LocalAddr().String()
	_ = closed.Close()
	server := startDNS(t, func(name string) (int, bool) {
		return map[string]int{"missing.": dns.RcodeNameError, "foreign.": dns.RcodeRefused}[name], name == "silent."
	})
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--name a.b --for 1s", exitUsage, "--server is missing: give the DNS server's address"},
		{"--server dns.example --name a.b --for 1s", exitUsage, `--server is "dns.example": want an IP address`},
		{"--server SERVER --for 1s", exitUsage, "--name is missing"},
		{"--server SERVER --name a..b --for 1s", exitUsage, `name is "a..b."`},
		{"--server SERVER --name a.b", exitUsage, "for is 0s: want more than 0"},
		{"--server SERVER --name a.b --for 5h", exitUsage, "at most 4h0m0s"},
		{"--server SERVER --name a.b --for 1s --rate 0", exitUsage, "rate is 0: want 1 to 200000 queries/s"},
		{"--server SERVER --name a.b --for 1s --mode both", exitUsage, `mode is "both"`},
		{"--server SERVER --name a.b --for 1s --ports 4", exitUsage, "fresh mode takes a port for each query"},
		{"--server SERVER --name a.b --for 1s --type B", exitUsage, `--type is "B"`},
		{"--server SERVER --name a.b --for 1s --timeout 0s", exitUsage, "--timeout is 0s: want 10ms to 10s"},
		{"--server SERVER --name a.b --for 1s --bufsize 5000", exitUsage, "--bufsize is 5000: want 512 to 4096 octets"},
		{"--server SERVER --server SERVER --name a.b --for 1s", exitUsage, "there is a stream"},
		{"--server SERVER --name a.b --for 1s --out /nowhere/x", exitUsage, "--out: open /nowhere/x"},
		{"--server SERVER a.b", exitUsage, `unknown command "a.b" for "spotdrill probe"`},
		{"serve --listen nowhere", exitUsage, "--listen nowhere"},

		{"--server NOTHING --name a.b --for 1s", exitFailed, "Nothing listens there"},
		{"--server SERVER --name missing --for 1s", exitFailed, "The server has no such record"},
		{"--server SERVER --name foreign --for 1s", exitFailed, "The server is there but"},
		{"--server SERVER --name a.b --name missing --type A --type AAAA --for 1s", exitFailed, "missing. AAAA"},
		{"--server SERVER --name a.b --for 1s --mode tcp", exitFailed, "dig +tcp @127.0.0.1"},
		{"--server SERVER --name silent --for 1s --timeout 100ms", exitFailed, "No answer came"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			args := strings.NewReplacer("SERVER", server, "NOTHING", nothing).Replace(c.args)
			_, code, err := runProbe(t.Context(), strings.Fields(args)...)
			if code != c.code || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v (exit %d), want exit %d with %q", err, code, c.code, c.want)
			}
		})
	}
}

func TestProbeReportsWindowsAndHoldsThemAgainstTheLimits(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := startDNS(t, func(string) (int, bool) {
		n := asked.Add(1)
		return dns.RcodeSuccess, n > 100 && n <= 200
	})
	out := filepath.Join(t.TempDir(), "queries.bin")
	stdout, code, err := runProbe(t.Context(), "--server", server, "--name", "a.b", "--rate", "500", "--mode", "fixed",
		"--for", "1s", "--json", "--out", out, "--max-window", "50ms", "--max-lost", "99")
	if code != exitFailed || !strings.Contains(err.Error(), "100 queries lost, --max-lost allows 99") {
		t.Errorf("exit %d: %v", code, err)
	}
	passed := strings.Contains(err.Error(), "--max-window allows 50ms")
	var report probereport.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	// A machine with much else to do may hide the window in an interval of doubt.
	if passed != (len(report.Streams[0].Windows) > 0) || !passed && len(report.Streams[0].Doubts) == 0 || report.Summary.Lost() != 100 {
		t.Errorf("got windows %+v, doubts %+v, %v", report.Streams[0].Windows, report.Streams[0].Doubts, report.Summary.Outcomes)
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	clock := history.NewClock()
	rec, err := history.Create(t.TempDir(), clock, history.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	back, err := prober.Collect(t.Context(), file, rec, "")
	if err != nil || back.Asked != report.Summary.Asked {
		t.Errorf("the file has %d queries, the report %d: %v", back.Asked, report.Summary.Asked, err)
	}
}

func TestProbeWritesQueriesInTheFormatOfTheExtension(t *testing.T) {
	t.Parallel()
	server := startDNS(t, healthy)
	for extension, want := range map[string]string{
		".jsonl": `{"t":"server","m":"fresh","p":`,
		".csv":   "target,mode,port,intended_ns,sent_ns,done_ns,outcome,node\n",
		".bin":   "spotdrQ2",
	} {
		out := filepath.Join(t.TempDir(), "queries"+extension)
		if _, code, err := runProbe(t.Context(), "--server", server, "--name", "a.b", "--rate", "100", "--for", "200ms", "--out", out); code != 0 {
			t.Errorf("exit %d: %v", code, err)
		}
		text, err := os.ReadFile(out)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s holds %.200q (%v), want %q", extension, text, err, want)
		}
		if lines := strings.Count(string(text), "server"); extension != ".bin" && lines != 20 {
			t.Errorf("%s holds %d queries to the server, want 20", extension, lines)
		}
	}
}

func TestProbeConvertsARecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := filepath.Join(dir, "queries.bin")
	if _, code, err := runProbe(t.Context(), "--server", startDNS(t, healthy), "--name", "a.b", "--rate", "100", "--for", "200ms", "--out", record); code != 0 {
		t.Fatalf("exit %d: %v", code, err)
	}
	whole, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.bin")
	if err := os.WriteFile(cut, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		code     int
		holds    string
	}{
		{record, "queries.csv", 0, "server,fresh,"},
		{record, "queries.jsonl", 0, `{"t":"server","m":"fresh","p":`},
		{cut, "cut.csv", exitFailed, "fresh,"},
		{record, "queries.txt", exitUsage, ""},
		{filepath.Join(dir, "none.bin"), "queries.csv", exitUsage, "server,fresh,"},
	} {
		to := filepath.Join(dir, c.to)
		_, code, err := runProbe(t.Context(), "convert", c.from, to)
		text, _ := os.ReadFile(to)
		if code != c.code || !strings.Contains(string(text), c.holds) {
			t.Errorf("%s to %s: exit %d, want %d: %v; it holds %.100q", c.from, c.to, code, c.code, err, text)
		}
	}
}

func TestProbeAsksSeveralServers(t *testing.T) {
	t.Parallel()
	well, ill := startDNS(t, healthy), startDNS(t, func(string) (int, bool) { return dns.RcodeServerFailure, false })
	stdout, code, err := runProbe(t.Context(), "--server", well, "--server", ill, "--name", "a.b", "--name", "b.b", "--rate", "100", "--for", "300ms", "--no-check")
	if code != 0 {
		t.Errorf("exit %d: %v", code, err)
	}
	for _, want := range []string{well + " for a.b. A, b.b. A, 100/s from a fresh port each", "queries   30: 30 answered", ill + " for a.b. A", "queries   30: 30 servfail"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in:\n%s", want, stdout)
		}
	}
}

func TestProbePrintsATable(t *testing.T) {
	t.Parallel()
	stdout, code, err := runProbe(t.Context(), "--server", startDNS(t, healthy), "--name", "a.b", "--rate", "100", "--for", "300ms", "--max-lost", "0")
	if code == exitFailed || code == exitUsage {
		t.Errorf("exit %d: %v", code, err)
	}
	for _, want := range []string{"100/s from a fresh port each", "queries   30: ", "latency   p50 ", "schedule  sent late by p99 ", "windows   none"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in:\n%s", want, stdout)
		}
	}
}

func TestProbeInterruptedPrintsWhatItHas(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithTimeout(t.Context(), time.Second)
	defer interrupt()
	stdout, code, err := runProbe(ctx, "--server", startDNS(t, healthy), "--name", "a.b", "--rate", "100", "--for", "10m")
	if code != exitUnknown || !strings.Contains(err.Error(), "interrupted") || !strings.Contains(stdout, "windows   none") {
		t.Errorf("exit %d: %v\n%s", code, err, stdout)
	}
}

func TestProbeThatCannotBeJudgedExitsWithUnknown(t *testing.T) {
	none := 0
	behind := probereport.Report{Summary: prober.Summary{Figures: prober.Figures{Asked: 10, Unsent: 1, Behind: "1 of 10 queries were not sent"}}}
	if err := judgedProbe(behind, probereport.Limits{MaxLost: &none}); codeOf(err) != exitUnknown {
		t.Errorf("got %v, want exit %d", err, exitUnknown)
	}
	if err := judgedProbe(behind, probereport.Limits{}); err != nil {
		t.Errorf("without limits got %v", err)
	}
}

func TestParseServer(t *testing.T) {
	for in, want := range map[string]string{
		"10.96.0.10": "10.96.0.10:53", "10.96.0.10:5353": "10.96.0.10:5353",
		"fd00::a": "[fd00::a]:53", "[fd00::a]": "[fd00::a]:53", "[fd00::a]:5353": "[fd00::a]:5353",
	} {
		if got, err := parseServer(in, history.Fresh); err != nil || got.String() != want {
			t.Errorf("%s: got %v (%v), want %s", in, got, err, want)
		}
	}
	if got, err := parseServer("10.96.12.7:80", history.HTTP); err != nil || got.String() != "10.96.12.7:80" {
		t.Errorf("of an application: got %v (%v)", got, err)
	}
	if _, err := parseServer("10.96.12.7", history.HTTP); err == nil || !strings.Contains(err.Error(), "address and port") {
		t.Errorf("of an application without a port: %v", err)
	}
}

func TestProbeOfAnApplication(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	for mode, want := range map[string]string{
		"dial": "100/s over TCP, opened and closed", "http": "100/s over HTTP, a connection each", "http-kept": "100/s over HTTP connections, of which up to 8 are kept",
	} {
		stdout, code, err := runProbe(t.Context(), "--server", address, "--mode", mode, "--path", "/healthz", "--rate", "100", "--for", "300ms", "--max-lost", "0")
		if code == exitFailed || code == exitUsage || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit %d: %v\n%s", mode, code, err, stdout)
		}
	}
	if _, code, err := runProbe(t.Context(), "--server", address, "--mode", "http", "--path", "/none", "--rate", "100", "--for", "1s"); code != exitFailed || !strings.Contains(err.Error(), "curl -v http://"+address+"/none") {
		t.Errorf("a path that is not there: exit %d: %v", code, err)
	}
	server.Close()
	if _, code, err := runProbe(t.Context(), "--server", address, "--mode", "dial", "--rate", "100", "--for", "1s"); code != exitFailed || !strings.Contains(err.Error(), "opened connections to") {
		t.Errorf("nobody listens: exit %d: %v", code, err)
	}
}
