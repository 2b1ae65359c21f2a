package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/proxy"
)

// The handler under test reaches the proxy's pod. It must not end the faults, or lift the policy, by
// which it is judged.
func TestAHandlerCannotControlTheProxy(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveProxy(ctx, proxy.New(&url.URL{Scheme: "http", Host: "127.0.0.1:9"}), proxyFlags{listen: "127.0.0.1:0", records: address, tokenFile: token})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	ask := func(request, token string) int {
		method, path, _ := strings.Cut(request, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader("[]"))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set(guard.Header, token)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for began := time.Now(); ask("GET /healthz", "") == 0; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("the proxy does not serve")
		}
	}
	for _, attack := range []string{"GET /records", "POST /faults", "DELETE /faults", "PUT /permitted", "DELETE /permitted", "POST /findings", "DELETE /findings"} {
		for _, with := range []string{"", "guess"} {
			if status := ask(attack, with); status != http.StatusForbidden {
				t.Errorf("%s with token %q: status %d", attack, with, status)
			}
		}
	}
	if status := ask("DELETE /permitted", "secret"); status != http.StatusOK {
		t.Errorf("with the token: status %d", status)
	}
}
