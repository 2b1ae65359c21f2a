package proxy

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// handles maps receipt handles to messages. The oldest handles are dropped first, but
// there is room for far more than a drill needs.
type handles struct {
	mu      sync.Mutex
	byValue map[string]message
	order   []string
	aliases map[string]string // from the handle of a copy to the one that the upstream knows
	expired map[string]bool   // handles that are refused from now on
}

const maxHandles = 20000

func newHandles() *handles {
	return &handles{byValue: map[string]message{}, aliases: map[string]string{}, expired: map[string]bool{}}
}

func (h *handles) add(messages []message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range messages {
		if _, known := h.byValue[m.handle]; !known {
			h.order = append(h.order, m.handle)
		}
		h.byValue[m.handle] = m
	}
	for len(h.order) > maxHandles {
		delete(h.byValue, h.order[0])
		delete(h.aliases, h.order[0])
		delete(h.expired, h.order[0])
		h.order = h.order[1:]
	}
}

func (h *handles) find(handle string) (m message, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, known = h.byValue[handle]
	return m, known
}

// expire makes the handle invalid, as SQS does with one that is too old: for good. The
// message has another one when it comes again.
func (h *handles) expire(handle string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expired[handle] = true
}

func (h *handles) isExpired(handle string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.expired[handle]
}

// alias adds handle as another name of original.
func (h *handles) alias(handle, original string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.aliases[original]; ok {
		original = known
	}
	h.aliases[handle] = original
}

// own returns the messages without copies, which the upstream does not know.
func (h *handles) own(messages []message) []message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(messages), func(m message) bool { return h.aliases[m.handle] != "" })
}

// resolve replaces the handles of copies in a request's body and URL query. An alias
// is spelled the same in JSON and in a form.
func (h *handles) resolve(c *call, body []byte, query string) (newBody []byte, newQuery string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range c.entries {
		original := h.aliases[e.handle]
		switch {
		case original == "":
		case c.json:
			quoted, _ := json.Marshal(original) // a string always encodes
			body = bytes.ReplaceAll(body, []byte(`"`+e.handle+`"`), quoted)
		default:
			body = bytes.ReplaceAll(body, []byte(e.handle), []byte(url.QueryEscape(original)))
			query = strings.ReplaceAll(query, e.handle, url.QueryEscape(original))
		}
	}
	return body, query
}
