package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/spotdrill/spotdrill/framework/history"
)

// permission is which actions of SQS a client may call: all, unless a policy states otherwise.
type permission struct {
	mu         sync.Mutex
	restricted bool
	actions    []string
}

// allows reports whether a call of SQS is permitted. Batches need the permission of their single calls.
func (p *permission) allows(action string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.restricted || slices.Contains(p.actions, history.SQSPermission(action))
}

func (p *permission) restrict(restricted bool, actions []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restricted, p.actions = restricted, actions
}

// serveSet restricts the clients to the actions that the request's body lists, as JSON.
func (p *permission) serveSet(w http.ResponseWriter, r *http.Request) {
	var actions []string
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxInspected)).Decode(&actions); err != nil {
		http.Error(w, fmt.Sprintf("read the actions: %v", err), http.StatusBadRequest)
		return
	}
	p.restrict(true, actions)
}

// serveLift permits everything.
func (p *permission) serveLift(http.ResponseWriter, *http.Request) { p.restrict(false, nil) }

// denied is why a call is refused that the policy does not allow.
type denied struct{ action string }

func (d denied) Error() string {
	return "the IAM policy does not allow sqs:" + history.SQSPermission(d.action)
}

// asDenied returns the refused call that caused an error, if one did.
func asDenied(err error) (d denied, ok bool) {
	ok = errors.As(err, &d)
	return d, ok
}
