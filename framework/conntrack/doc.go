// Package conntrack records where a node sent the queries of one client: the
// connection tracking entries between the client and services, with the backend
// that each was translated to, from the kernel's own events (ctnetlink).
//
// An entry decides where every query from its port goes: kube-proxy's rules apply only
// to the first one, and until the entry is gone the others follow it, even to a pod
// that no longer exists. So a query's port and time show to which pod it was sent, and
// a new entry shows where the rules sent queries at that moment.
package conntrack
