package history

import "strings"

// SQSPermission is the action of an IAM policy that allows a call of SQS: IAM has no actions of their
// own for batches.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-api-permissions-reference.html
func SQSPermission(action string) string {
	switch action {
	case "DeleteMessageBatch", "ChangeMessageVisibilityBatch", "SendMessageBatch":
		return strings.TrimSuffix(action, "Batch")
	}
	return action
}
