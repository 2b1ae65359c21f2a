package cluster

import (
	"sync"
)

// newcomers are nodes that join at about the same time. A route to one of
// them takes a process in each other node's container, so they get theirs together: while some do, the
// others wait, and are the next.
type newcomers struct {
	turn sync.Mutex // held while some get their routes

	mu      sync.Mutex
	waiting []*newcomer
}

// newcomer is a node that waits; the rest is set when it has its routes.
type newcomer struct {
	node string
	done bool
	err  error
}

// join returns when the node has its routes. One call of add gives them to all that wait, and returns
// why nodes did not get them, by their names.
func (n *newcomers) join(node string, add func(nodes []string) map[string]error) error {
	own := &newcomer{node: node}
	n.mu.Lock()
	n.waiting = append(n.waiting, own)
	n.mu.Unlock()

	n.turn.Lock()
	defer n.turn.Unlock()
	if own.done {
		return own.err // with those of another call
	}
	n.mu.Lock()
	batch := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	names := make([]string, len(batch))
	for i, b := range batch {
		names[i] = b.node
	}
	failed := add(names)
	for _, b := range batch {
		b.done, b.err = true, failed[b.node]
	}
	return own.err
}
