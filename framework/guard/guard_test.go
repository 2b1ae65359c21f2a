package guard

import (
	"cmp"
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
		request     string // empty: POST /stop
	}{
		"no token is required": {"", "", http.StatusOK, ""},
		"the token":            {"secret", "secret", http.StatusOK, ""},
		"another one":          {"secret", "guess", http.StatusForbidden, ""},
		"none":                 {"secret", "", http.StatusForbidden, ""},
		"a part of it":         {"secret", "secre", http.StatusForbidden, ""},
		"a kubelet":            {"secret", "", http.StatusOK, "GET /healthz"},
		"a change of health":   {"secret", "", http.StatusForbidden, "POST /healthz"},
		"a path below health":  {"secret", "", http.StatusForbidden, "GET /healthz/../records"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(cmp.Or(c.request, "POST /stop"), " ")
			request := httptest.NewRequest(method, path, http.NoBody)
			if c.sent != "" {
				request.Header.Set(Header, c.sent)
			}
			response := httptest.NewRecorder()
			With(c.token, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(response, request)
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
