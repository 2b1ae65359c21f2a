// Package queue is the way of a notice from EventBridge to the handler: the
// stack of rules and queue in LocalStack, the notices that go in, and the
// recording proxy that stands between the queue and the handler under test.
package queue
