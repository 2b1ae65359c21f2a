// Package conntrack records where a node sent the queries of one client: the
// connection tracking entries between the client and a service, with the backend
// that each was translated to, from the kernel's own events (ctnetlink).
//
// An entry decides the fate of every query from its port: kube-proxy's rules are
// asked for the first one only, and until the entry is gone the rest follow it,
// also to a pod that is gone. So a query's port and time tell which pod it was
// sent to, and a new entry tells where the rules sent at that moment.
package conntrack
