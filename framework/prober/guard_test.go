package prober

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyTheClientWithTheTokenIsServed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token, sent string
		want        int
	}{
		"no token is required": {"", "", http.StatusOK},
		"the token":            {"secret", "secret", http.StatusOK},
		"another one":          {"secret", "guess", http.StatusForbidden},
		"none":                 {"secret", "", http.StatusForbidden},
		"a part of it":         {"secret", "secre", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequest(http.MethodPost, "/stop", nil)
			if c.sent != "" {
				request.Header.Set(TokenHeader, c.sent)
			}
			response := httptest.NewRecorder()
			Guard(c.token, NewHandler(t.Context())).ServeHTTP(response, request)
			if response.Code != c.want {
				t.Errorf("status %d, want %d", response.Code, c.want)
			}
		})
	}
}

func TestAnEmptyTokenFileIsAnError(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := ReadToken(empty); err == nil {
		t.Errorf("token %q, want an error: it would let everybody in", token)
	}
	if _, err := ReadToken(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file gave no error")
	}
}

func TestRequestsOfCoreDNSAreCountedFromItsMetrics(t *testing.T) {
	t.Parallel()
	const metrics = `# HELP coredns_dns_requests_total Counter of DNS requests made per zone, protocol and family.
# TYPE coredns_dns_requests_total counter
coredns_dns_requests_total{family="1",proto="udp",server="dns://:53",type="A",view="",zone="."} 120
coredns_dns_requests_total{family="1",proto="tcp",server="dns://:53",type="AAAA",view="",zone="."} 3
# TYPE coredns_panics_total counter
coredns_panics_total 7
`
	if total, err := requestsIn(strings.NewReader(metrics)); err != nil || total != 123 {
		t.Errorf("%d requests, error %v, want 123", total, err)
	}
	if _, err := requestsIn(strings.NewReader("# TYPE go_goroutines gauge\ngo_goroutines 8\n")); err == nil {
		t.Error("metrics of another program gave no error")
	}
	if _, err := requestsIn(strings.NewReader("<html>")); err == nil {
		t.Error("a page that is no metrics gave no error")
	}
}
