package cluster

import (
	"sync"
)

// newcomers are nodes that join at about the same time. A route to one of
// them takes a process in each other node's container, so they are wired together: while some are, the
// others wait, and are the next.
type newcomers struct {
	turn sync.Mutex // held while some are wired

	mu      sync.Mutex
	waiting []*newcomer
}

// newcomer is a node that waits; the rest is set when it was wired.
type newcomer struct {
	node string
	done bool
	err  error
}

// join returns when the node is wired, with others that wait, by one call of wire. That returns why nodes
// could not be wired, by their names.
func (n *newcomers) join(node string, wire func(nodes []string) map[string]error) error {
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
	failed := wire(names)
	for _, b := range batch {
		b.done, b.err = true, failed[b.node]
	}
	return own.err
}
