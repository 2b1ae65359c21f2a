package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// part is a connection: what comes of it, and then an error; or nothing, until it is ended.
type part struct {
	text string
	err  error
}

// stream reads a part.
type stream struct {
	io.Reader
	part part
	ctx  context.Context //nolint:containedctx // the connection's
}

func (s stream) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if n > 0 || err == nil {
		return n, nil
	}
	if s.part.err != nil {
		return 0, s.part.err
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (s stream) Close() error { return nil }

// wholeRecord is what a prober answers when everything has been read.
var wholeRecord = part{"", status(http.StatusRequestedRangeNotSatisfiable)}

func status(code int) error {
	return apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{Resource: "pods"}, "prober", "", 0, true)
}

func TestARecordIsReadPartByPart(t *testing.T) {
	t.Parallel()
	const record = "a record of twenty-two"
	reset := errors.New("reset by peer")
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		parts  []part // the connections in turn; one without text cannot be opened
		breaks int
		ending bool
		want   string // of the error
	}{
		"whole at once":                     {[]part{{record, io.EOF}, wholeRecord}, 0, false, ""},
		"broken twice":                      {[]part{{record[:5], reset}, {record[5:6], reset}, {record[6:], io.EOF}, wholeRecord}, 2, false, ""},
		"silent":                            {[]part{{record[:5], nil}, {record[5:], io.EOF}, wholeRecord}, 1, false, ""},
		"in three parts":                    {[]part{{record[:5], io.EOF}, {record[5:9], io.EOF}, {record[9:], io.EOF}, wholeRecord}, 0, false, ""},
		"the API server is back in a while": {[]part{{record[:5], reset}, {"", refused}, {"", refused}, {record[5:], io.EOF}, wholeRecord}, 1, false, ""},
		"its end is broken off":             {[]part{{record, reset}, {"", refused}, wholeRecord}, 0, false, ""},
		"its pod is gone":                   {[]part{{record[:5], reset}, {"", status(http.StatusNotFound)}}, 0, false, "reset by peer; and it cannot be read further"},
		"the new API server is not ready":   {[]part{{record[:5], reset}, {"", refused}, {"", status(http.StatusForbidden)}, {record[5:], io.EOF}, wholeRecord}, 1, false, ""},
		"that part is no longer kept":       {[]part{{record[:5], reset}, {"", status(http.StatusGone)}}, 0, false, "cannot be read further"},
		"silent, and its node is gone":      {[]part{{record[:5], nil}, {"", status(http.StatusServiceUnavailable)}}, 0, false, "nothing came of it for 50ms"},
		"its prober cannot be reached":      {[]part{{record[:5], reset}, {"", status(http.StatusServiceUnavailable)}}, 0, false, "could not be reached for 1s"},
		"the API server stays away":         {[]part{{record[:5], reset}, {"", refused}}, 0, false, "could not be reached for 3s: connection refused"},
		"the observation is over":           {[]part{{record[:5], reset}, {"", refused}}, 0, true, "could not be reached at the end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ending := make(chan struct{})
			if c.ending {
				close(ending)
			}
			next, breaks, read := 0, 0, int64(0)
			open := func(ctx context.Context, p part) io.ReadCloser {
				return stream{strings.NewReader(p.text), p, ctx}
			}
			r := &parts{
				open: func(ctx context.Context, from int64) (io.ReadCloser, error) {
					if from != read {
						t.Errorf("it goes on at byte %d, and has read %d", from, read)
					}
					p := c.parts[min(next, len(c.parts)-1)]
					next++
					if p.text == "" {
						return nil, p.err
					}
					return open(ctx, p), nil
				},
				resumed: func(time.Duration, error) { breaks++ },
				ending:  ending, silentFor: 50 * time.Millisecond, within: 700 * time.Millisecond, away: 2500 * time.Millisecond,
			}
			var text []byte
			var err error
			for b := make([]byte, 3); err == nil; {
				var n int
				n, err = r.Read(b)
				text, read = append(text, b[:n]...), read+int64(n)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			switch {
			case c.want == "" && (!errors.Is(err, io.EOF) || string(text) != record):
				t.Errorf("read %q, %v", text, err)
			case c.want != "" && !strings.Contains(err.Error(), c.want):
				t.Errorf("error %v, want %q", err, c.want)
			}
			if breaks != c.breaks {
				t.Errorf("%d breaks are on record, want %d", breaks, c.breaks)
			}
		})
	}
}
