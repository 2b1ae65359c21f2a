package prober

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
)

func freshStream(server netip.AddrPort, rate int) QueryStream {
	return QueryStream{Target: history.Service, Server: server, Mode: history.Fresh, Rate: rate, Questions: []Question{{"a.example.", dns.TypeA}}}
}

func fixedStream(server netip.AddrPort, rate, ports int) QueryStream {
	s := freshStream(server, rate)
	s.Mode, s.Ports = history.Fixed, ports
	return s
}

func TestPlanValidate(t *testing.T) {
	server := netip.MustParseAddrPort("10.96.0.10:53")
	for _, c := range []struct {
		name   string
		change func(*Plan)
		want   string // part of the error; empty for none
	}{
		{"as it is", func(*Plan) {}, ""},
		{"two streams", func(p *Plan) { p.Streams = append(p.Streams, fixedStream(server, 500, 8)) }, ""},
		{"longest", func(p *Plan) { p.For = MaxFor }, ""},
		{"IPv6", func(p *Plan) { p.Streams[0].Server = netip.MustParseAddrPort("[fd00::a]:53") }, ""},
		{"root", func(p *Plan) { p.Streams[0].Questions[0] = Question{".", dns.TypeNS} }, ""},

		{"no streams", func(p *Plan) { p.Streams = nil }, "plan has no streams"},
		{"no bound", func(p *Plan) { p.For = 0 }, "for is 0s: want more than 0 and at most 4h0m0s"},
		{"too long", func(p *Plan) { p.For = MaxFor + 1 }, "at most 4h0m0s"},
		{"short timeout", func(p *Plan) { p.Timeout = time.Millisecond }, "timeout is 1ms: want 10ms to 10s"},
		{"long timeout", func(p *Plan) { p.Timeout = time.Minute }, "timeout is 1m0s"},
		{"twice the same", func(p *Plan) { p.Streams = append(p.Streams, p.Streams[0]) }, "stream 2: there is a stream service/fresh already"},
		{"no target", func(p *Plan) { p.Streams[0].Target = "" }, "target is empty"},
		{"the echo", func(p *Plan) { p.Streams[0].Target = history.Echo }, "that is the prober's own responder"},
		{"no server", func(p *Plan) { p.Streams[0].Server = netip.AddrPort{} }, "server is"},
		{"any server", func(p *Plan) { p.Streams[0].Server = netip.MustParseAddrPort("0.0.0.0:53") }, "want an address and port"},
		{"port 0", func(p *Plan) { p.Streams[0].Server = netip.MustParseAddrPort("10.0.0.1:0") }, "want an address and port"},
		{"rate 0", func(p *Plan) { p.Streams[0].Rate = 0 }, "rate is 0: want 1 to 200000 queries/s"},
		{"rate too high", func(p *Plan) { p.Streams[0].Rate = MaxRate + 1 }, "rate is 200001"},
		{"unknown mode", func(p *Plan) { p.Streams[0].Mode = "random" }, `mode is "random": want one of [fresh fixed tcp tcp-kept dial http http-kept]`},
		{"fresh with ports", func(p *Plan) { p.Streams[0].Ports = 8 }, "ports is 8: fresh mode takes a port for each query"},
		{"fixed without", func(p *Plan) { p.Streams[0] = fixedStream(server, 500, 0) }, "ports is 0: want 1 to 1024"},
		{"too few ids", func(p *Plan) { p.Streams[0] = fixedStream(server, 50_000, 8) }, "would run out of query ids: use 19 ports or more"},
		{"TCP", func(p *Plan) { p.Streams[0].Mode = history.Connect }, ""},
		{"TCP, kept", func(p *Plan) { p.Streams[0].Mode, p.Streams[0].Ports = history.Kept, 4 }, ""},
		{"TCP with ports", func(p *Plan) { p.Streams[0].Mode, p.Streams[0].Ports = history.Connect, 4 }, "tcp mode takes a port for each query"},
		{"TCP, none kept", func(p *Plan) { p.Streams[0].Mode = history.Kept }, "ports is 0: want 1 to 1024 in tcp-kept mode"},
		{"connections to an application", func(p *Plan) { p.Streams[0] = requestsTo(server, history.Dial, 100) }, ""},
		{"HTTP", func(p *Plan) { p.Streams[0] = requestsTo(server, history.HTTP, 100) }, ""},
		{"HTTP, kept", func(p *Plan) { p.Streams[0] = requestsTo(server, history.HTTPKept, 5000) }, ""},
		{"HTTP, none kept", func(p *Plan) { p.Streams[0] = requestsTo(server, history.HTTPKept, 100); p.Streams[0].Ports = 0 }, "ports is 0: want 1 to 1024 in http-kept mode"},
		{"HTTP with ports", func(p *Plan) { p.Streams[0] = requestsTo(server, history.HTTP, 100); p.Streams[0].Ports = 4 }, "http mode takes a port for each query"},
		{"HTTP without a path", func(p *Plan) { p.Streams[0] = requestsTo(server, history.HTTP, 100); p.Streams[0].Path = "" }, `path is "": want one that begins with a slash`},
		{"HTTP, a URL", func(p *Plan) { p.Streams[0] = requestsTo(server, history.HTTP, 100); p.Streams[0].Path = "http://a/b" }, "want one that begins with a slash"},
		{"HTTP, two requests in one", func(p *Plan) {
			p.Streams[0] = requestsTo(server, history.HTTP, 100)
			p.Streams[0].Path = "/ HTTP/1.1\r\nX: y\r\n\r\n"
		}, "want one that begins with a slash"},
		{"a connection with a path", func(p *Plan) { p.Streams[0] = requestsTo(server, history.Dial, 100); p.Streams[0].Path = "/" }, "dial mode only opens a connection"},
		{"HTTP with a question", func(p *Plan) { p.Streams[0].Mode, p.Streams[0].Path = history.HTTP, "/" }, "http mode asks no question"},
		{"DNS with a path", func(p *Plan) { p.Streams[0].Path = "/" }, `path is "/": fresh mode has none`},
		{"EDNS0", func(p *Plan) { p.Streams[0].BufferSize = 1232 }, ""},
		{"little EDNS0", func(p *Plan) { p.Streams[0].BufferSize = 511 }, "buffer size is 511: want 512 to 4096"},
		{"no question", func(p *Plan) { p.Streams[0].Questions = nil }, "0 questions: want 1 to 16384"},
		{"relative name", func(p *Plan) { p.Streams[0].Questions[0].Name = "a.example" }, `name is "a.example": want a fully qualified`},
		{"bad name", func(p *Plan) { p.Streams[0].Questions[0].Name = "a..example." }, "want a fully qualified"},
		{"no type", func(p *Plan) { p.Streams[0].Questions[0].Type = 0 }, "type is 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Plan{Streams: []QueryStream{freshStream(server, 1000)}, For: time.Minute}
			c.change(&p)
			err := p.Validate()
			if c.want == "" && err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestPlanTellsEverythingThatIsWrong(t *testing.T) {
	err := Plan{Streams: []QueryStream{{}}}.Validate()
	for _, want := range []string{"for is", "target is", "server is", "rate is", "mode is", "0 questions"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestPlanSurvivesJSON(t *testing.T) {
	server := netip.MustParseAddrPort("[fd00::a]:5353")
	p := Plan{Streams: []QueryStream{freshStream(server, 1000), fixedStream(server, 500, 8)}, Timeout: time.Second, For: time.Minute}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Plan
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(p, back) {
		t.Errorf("%s\nbecame %+v (%v)", b, back, err)
	}
}

// requestsTo is a stream of requests of a mode.
func requestsTo(server netip.AddrPort, mode history.Mode, rate int) QueryStream {
	s := QueryStream{Target: "app", Server: server, Mode: mode, Rate: rate}
	if mode != history.Dial {
		s.Path = "/healthz"
	}
	if mode == history.HTTPKept {
		s.Ports = 4
	}
	return s
}
