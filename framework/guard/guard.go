// Package guard lets the pods of one run serve only the client that started it.
package guard

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Header is the header that carries the token of a run. The API server's pod proxy
// passes it on; it takes the header Authorization for itself.
const Header = "X-Spotdrill-Token"

// With serves only requests that carry the token; others get 403. An empty token lets
// every request through.
func With(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(Header)), []byte(token)) != 1 {
			http.Error(w, "only the process that started this run may connect", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ReadToken reads the token of a run from a file. An empty file is an error: it would let
// everybody in. Without a file name there is no token.
func ReadToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("read the token: %s is empty", file)
	}
	return token, nil
}
