package verdict

// The checks of `make eventbridge`, which judges rules and no handler.
var (
	checkArrival = check{Kind: Kind{
		ID: Arrival, Title: "at the queue",
		Requires: "An event that the rules must let through arrives at the queue once and unchanged; no other arrives.",
		Fix:      "compare the rule's event pattern with the event's source, detail-type and detail; a rule needs the queue as its target, once",
		Look:     Look{Text: "the rules of the template that was deployed"},
	}}
	checkQueuePolicy = check{Kind: Kind{
		ID: QueuePolicy, Title: "queue policy",
		Requires: "The queue's policy lets EventBridge send to it.",
		Fix:      "allow sqs:SendMessage to events.amazonaws.com on the queue in its AWS::SQS::QueuePolicy: AWS delivers nothing without it",
		Look:     Look{Text: "the AWS::SQS::QueuePolicy of the template that was deployed"},
	}}
	checkQueueEncryption = check{Kind: Kind{
		ID: QueueEncryption, Title: "queue encryption",
		Requires: "The key that the queue is encrypted with lets EventBridge use it.",
		Fix:      "use SqsManagedSseEnabled instead of KmsMasterKeyId; or a key of your own whose KeyPolicy allows kms:GenerateDataKey* and kms:Decrypt to events.amazonaws.com",
		Look:     Look{Text: "KmsMasterKeyId of the AWS::SQS::Queue, and the KeyPolicy of the AWS::KMS::Key"},
	}}
)

// The checks of EventBridge rules.
const (
	Arrival         ID = "arrival"
	QueuePolicy     ID = "queuePolicy"
	QueueEncryption ID = "queueEncryption"
)
