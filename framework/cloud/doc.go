// Package cloud is the AWS side of a drill, played by LocalStack: the stack of
// EventBridge rules and queue, the instances, and the notices that go in. The names
// of EventBridge's fields stand here alone.
package cloud
