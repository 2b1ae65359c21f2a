// Package proxy is the recording proxy between a handler and LocalStack. It records
// every API call and injects the faults of a scenario. It runs in its own pod; Collect
// reads its records into a history.
package proxy
