package prober

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/spotdrill/spotdrill/framework/history"
)

// maxAnswer is the longest answer over UDP that is read whole.
const maxAnswer = MaxBufferSize

// headerSize is the size of a DNS message's header (RFC 1035, 4.1.1).
const headerSize = 12

// maxKnown bounds how many different answers a question remembers.
const maxKnown = 1024

// question is a packed query; only its id differs each time that it is sent. It is not
// safe for concurrent use.
type question struct {
	asked dns.Question
	wire  []byte
	known map[string]history.Outcome // by the answer, without its id
}

func newQuestions(s QueryStream) ([]*question, error) {
	var all []*question
	for _, asked := range s.Questions {
		q, err := newQuestion(asked, s.BufferSize)
		if err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	return all, nil
}

func newQuestion(asked Question, bufferSize uint16) (*question, error) {
	m := new(dns.Msg).SetQuestion(asked.Name, asked.Type)
	if bufferSize > 0 {
		m.SetEdns0(bufferSize, false)
	}
	wire, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("pack question %s %s: %w", asked.Name, dns.TypeToString[asked.Type], err)
	}
	return &question{asked: m.Question[0], wire: wire, known: map[string]history.Outcome{}}, nil
}

// idOf reads the id of a message, or of a query in an ICMP error.
func idOf(message []byte) (id uint16, ok bool) {
	if len(message) < 2 {
		return 0, false
	}
	return binary.BigEndian.Uint16(message), true
}

// judge returns the outcome of an answer to the query with that id. It is Mismatch for a
// message that is not DNS, has another id, or answers another question.
//
// A server mostly gives the same answer again, which differs only in its id. Such an
// answer is not unpacked again.
func (q *question) judge(answer []byte, id uint16) history.Outcome {
	if got, _ := idOf(answer); len(answer) < headerSize || got != id {
		return history.Mismatch
	}
	outcome, ok := q.known[string(answer[2:])]
	if !ok {
		outcome = q.unpack(answer)
		if len(q.known) == maxKnown {
			clear(q.known)
		}
		q.known[string(answer[2:])] = outcome
	}
	return outcome
}

func (q *question) unpack(answer []byte) history.Outcome {
	var m dns.Msg
	err := m.Unpack(answer)
	if !m.Response {
		return history.Mismatch
	}
	// Some servers answer REFUSED or FORMERR with only a header.
	bare := len(m.Question) == 0 && m.Rcode != dns.RcodeSuccess
	if !bare && (len(m.Question) != 1 || !q.same(m.Question[0])) {
		return history.Mismatch
	}
	// A resolver retries over TCP before it looks at anything else. Servers may truncate
	// within a record, so that the message cannot be unpacked.
	if m.Truncated {
		return history.Truncated
	}
	if err != nil {
		return history.Mismatch
	}
	switch m.Rcode {
	case dns.RcodeSuccess:
		if len(m.Answer) == 0 {
			return history.Empty
		}
		return history.Answered
	case dns.RcodeNameError:
		return history.NXDomain
	case dns.RcodeServerFailure:
		return history.ServFail
	case dns.RcodeRefused:
		return history.Refused
	default:
		return history.OtherCode
	}
}

// same ignores the case of names (RFC 1035, 2.3.3).
func (q *question) same(other dns.Question) bool {
	return other.Qtype == q.asked.Qtype && other.Qclass == q.asked.Qclass &&
		strings.EqualFold(other.Name, q.asked.Name)
}
