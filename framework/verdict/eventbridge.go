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
)

// The checks of EventBridge rules.
const (
	Arrival     ID = "arrival"
	QueuePolicy ID = "queuePolicy"
)

// New returns a verdict of a check that has no outcome yet.
func New(id ID, want string) Verdict {
	c, ok := find(id)
	if !ok {
		c = unknownCheck
	}
	return c.verdict().requires(want)
}
