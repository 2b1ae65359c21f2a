package history

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"time"
)

// The format of a query record: docs/query-record.md.
const (
	queriesMagic = "spotdrQ2"
	// querySize is what a query takes on disk.
	querySize = 23
	// The former format differs in that the number of a stream has one byte.
	formerMagic = "spotdrQ1"
	formerSize  = 22
	// maxJSON bounds the texts within a record.
	maxJSON = 1 << 20

	codeStream = 0xfe // in place of an outcome: a stream is introduced
	codeEnd    = 0xff // in place of an outcome: the record ends

	// maxSpan is the longest time between two moments of one query.
	maxSpan = 1<<39 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamKey is what a record introduces once and then names by a number.
type streamKey struct {
	Target string `json:"target"`
	Mode   Mode   `json:"mode"`
	Node   string `json:"node,omitempty"`
}

// QueryWriter writes a query record. It keeps the first error and returns it from
// then on. It is not safe for concurrent use.
type QueryWriter struct {
	out     io.Writer
	buf     []byte
	crc     uint32
	count   uint64
	streams map[streamKey]int
	err     error
}

// NewQueryWriter begins a record; header is what its reader should know first.
func NewQueryWriter(out io.Writer, header any) *QueryWriter {
	w := &QueryWriter{out: out, buf: make([]byte, 0, 1<<16), streams: map[streamKey]int{}}
	w.buf = append(w.buf, queriesMagic...)
	text := w.text(header)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(len(text)))
	w.buf = append(w.buf, text...)
	return w
}

func (w *QueryWriter) text(v any) []byte {
	text, err := json.Marshal(v)
	if err == nil && len(text) > maxJSON {
		err = fmt.Errorf("a text of %s is too long for a query record", Count(len(text), "byte"))
	}
	w.keep(err)
	return text
}

// Write appends a query.
func (w *QueryWriter) Write(q Query) error {
	code := slices.Index(Outcomes(), q.Outcome) + 1
	if code == 0 {
		w.keep(fmt.Errorf("query has outcome %q, want one of %v", q.Outcome, Outcomes()))
		return w.err
	}
	late, took := q.Sent-q.Intended, q.Done-q.Sent
	if q.Outcome == Unsent {
		late, took = q.Done-q.Intended, 0
	}
	if max(late, took, -late, -took) > maxSpan || q.Port < 0 || q.Port > math.MaxUint16 {
		w.keep(fmt.Errorf("query does not fit a record: %+v", q))
		return w.err
	}
	stream, err := w.stream(streamKey{q.Target, q.Mode, q.Node})
	if err != nil {
		w.keep(err)
		return w.err
	}
	w.put(q.Intended, late, took, q.Port, stream, byte(code))
	w.count++
	return w.err
}

func (w *QueryWriter) stream(key streamKey) (int, error) {
	n, ok := w.streams[key]
	if ok {
		return n, nil
	}
	if n = len(w.streams); n > math.MaxUint16 {
		return 0, fmt.Errorf("more than %s", Count(n, "stream"))
	}
	w.streams[key] = n
	text := w.text(key)
	w.put(time.Duration(len(text)), 0, 0, 0, n, codeStream)
	w.buf = append(w.buf, text...)
	return n, nil
}

func (w *QueryWriter) put(intended, late, took time.Duration, port, stream int, code byte) {
	if len(w.buf) > 1<<15 {
		w.keep(w.Flush())
	}
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(intended))
	w.buf = appendSpan(w.buf, late)
	w.buf = appendSpan(w.buf, took)
	w.buf = binary.LittleEndian.AppendUint16(w.buf, uint16(port))
	w.buf = binary.LittleEndian.AppendUint16(w.buf, uint16(stream))
	w.buf = append(w.buf, code)
}

// Flush hands what was written so far to the underlying writer.
func (w *QueryWriter) Flush() error {
	if w.err != nil {
		return w.err
	}
	w.crc = crc32.Update(w.crc, castagnoli, w.buf)
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	w.keep(err)
	return w.err
}

// Close writes the end, with a last text for the reader. The underlying writer
// stays open. A record without its end is known as cut short.
func (w *QueryWriter) Close(trailer any) error {
	text := w.text(trailer)
	w.put(time.Duration(w.count), time.Duration(len(text)), 0, 0, 0, codeEnd)
	w.buf = append(w.buf, text...)
	if err := w.Flush(); err != nil {
		return err
	}
	w.buf = binary.LittleEndian.AppendUint32(w.buf, w.crc)
	return w.Flush()
}

func (w *QueryWriter) keep(err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("write query record: %w", err)
	}
}

// Spans take 40 bits in two's complement: up to nine minutes either way.
func appendSpan(b []byte, d time.Duration) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(d))
	return append(b, byte(d>>32))
}

func span(b []byte) time.Duration {
	return time.Duration(binary.LittleEndian.Uint32(b)) | time.Duration(int8(b[4]))<<32
}

// QueryReader reads a query record. It trusts nothing of it.
type QueryReader struct {
	in      *bufio.Reader
	header  []byte
	trailer []byte
	crc     uint32
	count   uint64
	streams []streamKey
	size    int // of an entry
}

// NewQueryReader reads a record up to its first query.
func NewQueryReader(in io.Reader) (*QueryReader, error) {
	r := &QueryReader{in: bufio.NewReaderSize(in, 1<<16)}
	start := make([]byte, len(queriesMagic)+4)
	if err := r.read(start); err != nil {
		return nil, fmt.Errorf("read query record: its start: %w", err)
	}
	switch string(start[:len(queriesMagic)]) {
	case queriesMagic:
		r.size = querySize
	case formerMagic:
		r.size = formerSize
	default:
		return nil, fmt.Errorf("read query record: it begins with %q, want %q", start[:len(queriesMagic)], queriesMagic)
	}
	var err error
	if r.header, err = r.text(uint64(binary.LittleEndian.Uint32(start[len(queriesMagic):]))); err != nil {
		return nil, fmt.Errorf("read query record: its header: %w", err)
	}
	return r, nil
}

// Header decodes what the writer wanted known first.
func (r *QueryReader) Header(v any) error { return decode("header", r.header, v) }

// Trailer decodes what the writer recorded last. There is one once Next has returned
// io.EOF.
func (r *QueryReader) Trailer(v any) error { return decode("trailer", r.trailer, v) }

func decode(name string, text []byte, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read query record: its %s: %w", name, err)
	}
	return nil
}

// Next returns the next query, io.EOF after the record's end, and any other error
// if the record is damaged or cut short.
func (r *QueryReader) Next() (Query, error) {
	var entry [querySize]byte
	b := entry[:r.size]
	for {
		if err := r.read(b); err != nil {
			return Query{}, r.damaged(err)
		}
		stream, code := int(b[20]), b[r.size-1]
		if r.size == querySize {
			stream |= int(b[21]) << 8
		}
		switch code {
		case codeStream:
			if err := r.introduce(stream, binary.LittleEndian.Uint64(b)); err != nil {
				return Query{}, r.damaged(err)
			}
			continue
		case codeEnd:
			if err := r.end(b); err != nil {
				return Query{}, r.damaged(err)
			}
			return Query{}, io.EOF
		}
		q, err := r.query(b, stream, code)
		if err != nil {
			return Query{}, r.damaged(err)
		}
		r.count++
		return q, nil
	}
}

func (r *QueryReader) query(b []byte, stream int, code byte) (Query, error) {
	outcomes := Outcomes()
	if code == 0 || int(code) > len(outcomes) {
		return Query{}, fmt.Errorf("outcome %d, want 1 to %d", code, len(outcomes))
	}
	if stream >= len(r.streams) {
		return Query{}, fmt.Errorf("stream %d, which was not introduced", stream)
	}
	key, intended, late, took := r.streams[stream], time.Duration(binary.LittleEndian.Uint64(b)), span(b[8:]), span(b[13:])
	q := Query{Target: key.Target, Node: key.Node, Mode: key.Mode, Port: int(binary.LittleEndian.Uint16(b[18:])), Intended: intended, Outcome: outcomes[code-1]}
	if q.Outcome == Unsent {
		q.Done = intended + late
		return q, nil
	}
	q.Sent = intended + late
	q.Done = q.Sent + took
	return q, nil
}

func (r *QueryReader) introduce(stream int, length uint64) error {
	text, err := r.text(length)
	if err != nil {
		return err
	}
	if stream != len(r.streams) {
		return fmt.Errorf("stream %d is introduced after %d", stream, len(r.streams))
	}
	var key streamKey
	if err := json.Unmarshal(text, &key); err != nil {
		return fmt.Errorf("stream %d: %w", stream, err)
	}
	r.streams = append(r.streams, key)
	return nil
}

func (r *QueryReader) end(b []byte) error {
	if count := binary.LittleEndian.Uint64(b); count != r.count {
		return fmt.Errorf("its end has %s", Count(count, "query"))
	}
	var err error
	if r.trailer, err = r.text(uint64(span(b[8:]))); err != nil {
		return err
	}
	var sum [4]byte
	crc := r.crc
	if err := r.read(sum[:]); err != nil {
		return err
	}
	if want := binary.LittleEndian.Uint32(sum[:]); want != crc {
		return fmt.Errorf("its checksum is %08x, its end has %08x", crc, want)
	}
	return nil
}

func (r *QueryReader) text(length uint64) ([]byte, error) {
	if length > maxJSON {
		return nil, fmt.Errorf("a text of %s, want %d at most", Count(length, "byte"), maxJSON)
	}
	b := make([]byte, length)
	return b, r.read(b)
}

func (r *QueryReader) read(b []byte) error {
	n, err := io.ReadFull(r.in, b)
	r.crc = crc32.Update(r.crc, castagnoli, b[:n])
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *QueryReader) damaged(err error) error {
	return fmt.Errorf("read query record: after %s: %w", Count(r.count, "query"), err)
}
