package prober

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestJudgeTellsEveryOutcome(t *testing.T) {
	q, err := newQuestion(Question{"a.example.", dns.TypeA}, 0)
	if err != nil {
		t.Fatal(err)
	}
	const id = 4711
	reply := func(change func(*dns.Msg)) []byte {
		var asked dns.Msg
		if err := asked.Unpack(q.wire); err != nil {
			t.Fatal(err)
		}
		asked.Id = id
		m := new(dns.Msg).SetReply(&asked)
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: "a.example.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5}, A: []byte{10, 0, 0, 1}})
		change(m)
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	code := func(rcode int) func(*dns.Msg) {
		return func(m *dns.Msg) { m.Rcode, m.Answer = rcode, nil }
	}
	whole := reply(func(*dns.Msg) {})
	truncated := reply(func(m *dns.Msg) { m.Truncated = true })
	for _, c := range []struct {
		name   string
		answer []byte
		want   history.Outcome
	}{
		{"an address", whole, history.Answered},
		{"the name in capitals", reply(func(m *dns.Msg) { m.Question[0].Name = "A.Example." }), history.Answered},
		{"no record", reply(func(m *dns.Msg) { m.Answer = nil }), history.Empty},
		{"NXDOMAIN", reply(code(dns.RcodeNameError)), history.NXDomain},
		{"SERVFAIL", reply(code(dns.RcodeServerFailure)), history.ServFail},
		{"REFUSED", reply(code(dns.RcodeRefused)), history.Refused},
		{"NOTIMP", reply(code(dns.RcodeNotImplemented)), history.OtherCode},
		{"REFUSED with only a header", reply(func(m *dns.Msg) { code(dns.RcodeRefused)(m); m.Question = nil }), history.Refused},
		{"truncated", truncated, history.Truncated},
		{"truncated within a record", truncated[:len(truncated)-3], history.Truncated},

		{"another id", reply(func(m *dns.Msg) { m.Id++ }), history.Mismatch},
		{"another name", reply(func(m *dns.Msg) { m.Question[0].Name = "b.example." }), history.Mismatch},
		{"another type", reply(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }), history.Mismatch},
		{"no question", reply(func(m *dns.Msg) { m.Question = nil }), history.Mismatch},
		{"a query, not a response", reply(func(m *dns.Msg) { m.Response = false }), history.Mismatch},
		{"cut within a record", whole[:len(whole)-3], history.Mismatch},
		{"cut within the header", whole[:headerSize-1], history.Mismatch},
		{"not DNS", []byte("hello"), history.Mismatch},
		{"nothing", nil, history.Mismatch},
	} {
		for _, when := range []string{"first", "again"} {
			if got := q.judge(c.answer, id); got != c.want {
				t.Errorf("%s, judged %s: got %s, want %s", c.name, when, got, c.want)
			}
		}
	}
	for n := range 2 * maxKnown {
		if got := q.judge(reply(func(m *dns.Msg) { m.Answer[0].Header().Ttl = uint32(n) }), id); got != history.Answered {
			t.Fatalf("answer %d: got %s", n, got)
		}
	}
	if len(q.known) > maxKnown {
		t.Errorf("keeps %d answers in mind, want %d at most", len(q.known), maxKnown)
	}
}
