package prober

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// TokenHeader is the header that carries the token of a run. The API server's pod proxy
// passes it on; it takes the header Authorization for itself.
const TokenHeader = "X-Spotdrill-Token"

// Guard serves only requests that carry the token; others get 403. An empty token lets
// every request through.
func Guard(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(TokenHeader)), []byte(token)) != 1 {
			http.Error(w, "this prober takes orders only from the client that started it", http.StatusForbidden)
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
