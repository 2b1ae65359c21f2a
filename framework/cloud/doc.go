// Package cloud is the AWS side of a drill, which LocalStack provides: the stack with
// the EventBridge rules and the queue, the EC2 instances, and the notices about them.
// It also sends notices to any queue or event bus. No other package knows the fields
// of EventBridge's events, except for handlers, which read them.
package cloud
