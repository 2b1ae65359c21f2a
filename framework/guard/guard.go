// Package guard lets the pods of one run serve only the client that started it. A handler under test is
// in the same network, and must not end a fault, or read what is recorded of it.
package guard

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Health is the path that kubelets ask for without a token, by GET.
const Health = "/healthz"

// Header is the header that carries the token of a run. The API server's pod proxy
// passes it on; it takes the header Authorization for itself.
const Header = "X-Spotdrill-Token"

// With serves only requests that carry the token; others get 403. An empty token lets
// every request through. Everybody may ask for Health.
func With(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := r.URL.Path == Health && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if !health && subtle.ConstantTimeCompare([]byte(r.Header.Get(Header)), []byte(token)) != 1 {
			http.Error(w, "only the process that started this run may connect", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readTimeout is how long a client may take to send a request: plans and faults are small.
const readTimeout = 30 * time.Second

// Server serves requests that carry the token, see With. A client that sends slowly does not keep it
// busy.
func Server(token string, next http.Handler) *http.Server {
	return &http.Server{Handler: With(token, next), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout}
}

// mostToken is the largest file with a token that is read, in bytes.
const mostToken = 4 << 10

// ReadToken reads the token of a run from a file. An empty file is an error: it would let
// everybody in. Without a file name there is no token.
func ReadToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, mostToken))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("read the token: %s is empty", file)
	}
	return token, nil
}
