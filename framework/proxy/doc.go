// Package proxy is the recording proxy between a handler and SQS: it records every
// API call and does wrong what a scenario's faults want done wrong. It runs in a pod
// of its own; Collect takes what it recorded into a history.
package proxy
