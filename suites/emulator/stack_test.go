package emulator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/logic"
	"github.com/spotdrill/spotdrill/kind"
)

func ofStacksAndInstances() []requirement {
	return []requirement{
		{"stack", "a stack is reused, and instances are found by their tags until they are terminated", stackIsReused},
		{"failed-stack", "a stack that could not be created is created again", failedStackIsCreatedAgain},
		{"recreated-queue", "a queue that is deleted and created again has its attributes, and gets notices", queueIsCreatedAgain},
		{"lost-queue", "the next deployment puts a stack right whose queue is gone, or keeps messages too short", queueIsPutRight},
		{"visibility", "a message that was read is hidden", readMessageIsHidden},
		{"retention", "a message expires when the retention of its queue is over", messagesExpire},
		{"deliveries", "what gets to the queue of the last rule was tried at the targets of all", deliveriesAreTried},
		{"launches", "an instance is launched with its type, zone and market, and types have sizes", launchesAreDescribed},
		{"fleets", "a fleet of two is answered with both instances and their types, and they have their security groups", func(ctx context.Context, e *emulator) {
			need(cloud.Connect(e.endpoint, kind.Region).CheckFleet(ctx))
		}},
		{"rules-of-a-queue", "the rules that send to a queue are listed with their patterns, and as enabled or not", noticesThatReach},
	}
}

func unique(name string) string { return fmt.Sprintf("%s-%d", name, time.Now().UnixNano()) }

func stackIsReused(ctx context.Context, e *emulator) {
	d := e.stack(ctx, "reused")
	need(d.DeployStack(ctx, "reused"))
	cluster := unique("drill")
	ids := must(d.RunInstances(ctx, cluster, []string{"spot-1", "spot-2"}))
	Expect(must(d.Instances(ctx, cluster))).To(Equal(ids), "the instances that run")
	need(d.Terminate(ctx, []string{ids["spot-1"], ids["spot-2"]}))
	Expect(must(d.Instances(ctx, cluster))).To(BeEmpty(), "the instances that run after they were terminated")
}

func failedStackIsCreatedAgain(ctx context.Context, e *emulator) {
	cluster := unique("broken")
	const broken = "Resources:\n  Queue:\n    Type: AWS::SQS::QueuePolicy\n    Properties: {Queues: [nowhere], PolicyDocument: {}}\n"
	stacks := cloudformation.NewFromConfig(e.config(e.endpoint))
	name := aws.String("spotdrill-" + cluster) // as DeployStack names it
	must(stacks.CreateStack(ctx, &cloudformation.CreateStackInput{StackName: name, TemplateBody: aws.String(broken)}))
	Eventually(ctx, func() string {
		return string(must(stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: name})).Stacks[0].StackStatus)
	}).WithTimeout(time.Minute).Should(Or(HaveSuffix("_FAILED"), HaveSuffix("ROLLBACK_COMPLETE")), "the status of a stack whose template is broken")
	d := cloud.Connect(e.endpoint, kind.Region)
	need(d.DeployStack(ctx, cluster))
	need(d.DeleteStack(ctx, cluster))
}

// kept are the attributes of a queue that stay the same when it is created again.
func (e *emulator) kept(ctx context.Context, d *cloud.AWS) map[string]string {
	GinkgoHelper()
	out := must(sqs.NewFromConfig(e.config(e.endpoint)).GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(d.QueueURL(e.endpoint)), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	}))
	for name := range out.Attributes {
		if strings.HasSuffix(name, "Timestamp") || strings.HasPrefix(name, "Approximate") {
			delete(out.Attributes, name)
		}
	}
	return out.Attributes
}

func queueIsCreatedAgain(ctx context.Context, e *emulator) {
	d := e.stack(ctx, "recreated")
	was := e.kept(ctx, d)
	create := must(d.DeleteQueue(ctx))
	_, _, err := d.Depth(ctx)
	Expect(err).To(HaveOccurred(), "the depth of a queue that is gone")
	need(create(ctx))
	Expect(e.kept(ctx, d)).To(Equal(was), "its attributes")
	must(d.Put(ctx, cloud.Notice{Type: history.SpotInterruption, Instances: []string{"i-1"}}))
	Expect(must(d.Take(ctx, 10*time.Second))).To(HaveLen(1), "a notice afterwards")
}

// A run that was killed can leave a stack without its queue, or with another retention. Whether a stack without its queue can
// be deleted depended on an order that is another one each time: so it is tried five times.
func queueIsPutRight(ctx context.Context, e *emulator) {
	const name = "left-wrong"
	d := e.stack(ctx, name)
	for range 5 {
		must(d.DeleteQueue(ctx))
		need(d.DeployStack(ctx, name))
	}
	must(d.KeepMessages(ctx, history.ShortestRetention))
	need(d.DeployStack(ctx, name))
	Expect(e.kept(ctx, d)).To(HaveKeyWithValue("MessageRetentionPeriod", "300"))
}

func readMessageIsHidden(ctx context.Context, e *emulator) {
	d := e.stack(ctx, "read")
	id := must(d.SendRaw(ctx, `{"id":"a-notice"}`))
	Expect(must(d.ReadOne(ctx, 5*time.Second))).To(Equal(&cloud.Read{Message: id, Notice: "a-notice"}))
	visible, invisible, err := d.Depth(ctx)
	need(err)
	Expect([]int{visible, invisible}).To(Equal([]int{0, 1}), "visible and invisible messages")
	Expect(must(d.ReadOne(ctx, time.Second))).To(BeNil(), "a second reader gets nothing")
}

func messagesExpire(ctx context.Context, e *emulator) {
	d := e.stack(ctx, "expiring")
	must(d.KeepMessages(ctx, history.ShortestRetention))
	must(d.SendRaw(ctx, "stale"))
	sent, left := time.Now(), 1
	for left > 0 && time.Since(sent) < history.ShortestRetention+10*time.Second {
		time.Sleep(time.Second)
		var err error
		left, _, err = d.Depth(ctx)
		need(err)
	}
	Expect(left).To(BeZero(), "messages left when the retention was over")
	Expect(time.Since(sent)).To(BeNumerically(">", history.ShortestRetention-2*time.Second), "the age at which the message expired")
}

func deliveriesAreTried(ctx context.Context, e *emulator) {
	d := e.stack(ctx, "tried")
	deliveries := must(d.WatchDeliveries(ctx))
	DeferCleanup(func(ctx SpecContext) { need(deliveries.Close(ctx)) }, NodeTimeout(time.Minute))
	ids := must(d.Put(ctx, cloud.Notice{Type: history.SpotInterruption, Instances: []string{"i-1"}}))
	need(deliveries.WaitTried(ctx, ids[0]))
	Expect(must(d.Take(ctx, 0))).To(HaveLen(1), "the notice, once its delivery was tried everywhere")
	Expect(deliveries.WaitTried(ctx, "never-sent")).NotTo(Succeed(), "the delivery of an event that nobody sent")
}

func launchesAreDescribed(ctx context.Context, e *emulator) {
	d := cloud.Connect(e.endpoint, kind.Region)
	cluster, zone := unique("launches"), kind.Region+"c"
	fixed := must(d.RunInstances(ctx, cluster, []string{"worker"}))
	id := must(d.Launch(ctx, cluster, cloud.Launch{Type: "c5.large", Zone: zone, Spot: true}))
	found := must(d.Launched(ctx, cluster))
	Expect(found).To(HaveLen(1), "what was launched besides the fixed workers")
	l := found[0]
	if l.ID != id || l.Type != "c5.large" || l.Zone != zone || !l.Spot || l.Ended {
		Fail(fmt.Sprintf("a spot instance %s of type c5.large in %s is described as %+v", id, zone, l))
	}
	Expect(must(d.Instances(ctx, cluster))).To(Equal(fixed), "the fixed workers")
	need(d.Terminate(ctx, []string{id, fixed["worker"]}))
	for _, l := range must(d.Launched(ctx, cluster)) {
		Expect(l.Ended).To(BeTrue(), "%s has ended", l.ID)
	}
	Expect(must(d.SizeOf(ctx, "m5.large"))).To(Equal(cloud.Size{CPUs: 2, Memory: 8 << 30, Pods: 29, PodENIs: 9}), "the size of m5.large")
	_, err := d.SizeOf(ctx, "m5.enormous")
	Expect(err).To(HaveOccurred(), "the size of a type that does not exist")
}

func noticesThatReach(ctx context.Context, e *emulator) {
	const queue = "reach"
	e.stack(ctx, queue)
	cfg := e.config(e.endpoint)
	r := must(cloud.NoticesThatReach(ctx, cfg, queue))
	Expect(r.ARN).NotTo(BeEmpty(), "the queue is found")
	Expect(r.Unheard).To(BeEmpty(), "notices that do not reach it")
	Expect([]logic.Truth{r.Policy.Is, r.Encryption.Is}).To(Equal([]logic.Truth{logic.Yes, logic.Yes}), "policy and encryption let EventBridge send")
	client := eventbridge.NewFromConfig(cfg)
	for _, name := range must(client.ListRuleNamesByTarget(ctx, &eventbridge.ListRuleNamesByTargetInput{TargetArn: &r.ARN})).RuleNames {
		must(client.DisableRule(ctx, &eventbridge.DisableRuleInput{Name: &name}))
	}
	Expect(must(cloud.NoticesThatReach(ctx, cfg, queue)).Unheard).To(HaveLen(len(history.NoticeTypes())), "with no rule enabled, notices that do not reach it")
	Expect(must(cloud.NoticesThatReach(ctx, cfg, "no-such-queue")).ARN).To(BeEmpty(), "a queue that does not exist")
}
