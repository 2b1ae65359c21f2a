package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	cfn "github.com/spotdrill/spotdrill/framework/cloudformation"
	"github.com/spotdrill/spotdrill/framework/iam"
	"github.com/spotdrill/spotdrill/framework/logic"
)

// clusterParameter is the template's parameter for the cluster's name, which the
// user's own template may lack.
const clusterParameter = "ClusterName"

// The types of the resources that decide what gets to the queue.
const (
	queueType        = "AWS::SQS::Queue"
	policyType       = "AWS::SQS::QueuePolicy"
	inlinePolicyType = "AWS::SQS::QueueInlinePolicy"
	ruleType         = "AWS::Events::Rule"
	keyType          = "AWS::KMS::Key"
	aliasType        = "AWS::KMS::Alias"
)

// Defaults of SQS for a queue: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
const (
	defaultVisibility = 30 * time.Second
	defaultRetention  = 4 * 24 * time.Hour
)

// Template is what a CloudFormation template makes of one queue and the rules that send to it.
type Template struct {
	Queue Queue
	Rules []Rule // in the order of their names
	// VisibilityTimeout, Delay and Retention are settings of the queue, in whole seconds.
	VisibilityTimeout, Delay, Retention time.Duration
	// MaxReceives is how many times a message is received until SQS moves it to the dead-letter queue; 0
	// without one.
	MaxReceives int

	name      string         // of the queue's resource
	resources map[string]any // that are deployed
}

// TemplateOptions are what a template is read with.
type TemplateOptions struct {
	Cluster    string            // the value of the parameter ClusterName, if the template has it
	Parameters map[string]string // values of others, and of AWS::AccountId, AWS::Region and AWS::Partition
	Queue      string            // the name of the queue's resource; empty: the one that rules send to
}

// ReadTemplate reads a template, JSON or YAML, and finds the queue that the rules send to: dead-letter
// queues are recognised. Its error is about all that is missing.
func ReadTemplate(text []byte, o TemplateOptions) (Template, error) {
	t, err := cfn.Parse(text)
	if err != nil {
		return Template{}, err
	}
	if t.Has(clusterParameter) && o.Cluster != "" {
		if err := t.Set(map[string]string{clusterParameter: o.Cluster}); err != nil {
			return Template{}, err
		}
	}
	if err := t.Set(o.Parameters); err != nil {
		return Template{}, err
	}
	r := templateReader{Template: t}
	queue, err := r.find(o.Queue)
	if err != nil {
		return Template{}, err
	}
	out := Template{name: queue.Name, resources: map[string]any{}}
	out.Queue, err = r.queue(queue)
	errs := []error{err, r.settings(queue, &out), r.rules(&out)}
	return out, r.missing(errors.Join(errs...))
}

type templateReader struct {
	*cfn.Template
	undecided []any // values that must be decided, and are not
}

// missing is the error, with the parameters that have no value.
func (r *templateReader) missing(err error) error {
	if len(r.undecided) == 0 {
		return err
	}
	names := cfn.Parameters(r.undecided)
	if len(names) == 0 {
		names = r.Missing()
	}
	if len(names) == 0 {
		return err
	}
	return fmt.Errorf("parameters without a value: %s; set them by PARAMETERS=%s=VALUE (--parameters)", strings.Join(names, ", "), strings.Join(names, "=VALUE,"))
}

// decided is an error if a value has symbols other than those that the emulator replaces.
func (r *templateReader) decided(what string, v any) error {
	left := slices.DeleteFunc(cfn.Symbols(v), func(name string) bool { return emulated()[name] != "" })
	if len(left) == 0 {
		return nil
	}
	r.undecided = append(r.undecided, v)
	return fmt.Errorf("%s is not decided by the template: it depends on %s", what, strings.Join(left, ", "))
}

// emulated are the values of pseudo parameters in LocalStack; the region is replaced later.
func emulated() map[string]string {
	return map[string]string{cfn.Account: Account, cfn.Partition: "aws", cfn.Region: "region", cfn.StackName: stackName("rules"), "URL suffix": "amazonaws.com"}
}

// find finds the queue that is tested.
func (r *templateReader) find(name string) (cfn.Resource, error) {
	queues := r.Resources(queueType)
	names := func(of []cfn.Resource) string {
		var names []string
		for _, q := range of {
			names = append(names, q.Name)
		}
		return strings.Join(names, ", ")
	}
	only := func(is func(cfn.Resource) bool) []cfn.Resource {
		return slices.DeleteFunc(slices.Clone(queues), func(q cfn.Resource) bool { return !is(q) })
	}
	if name != "" {
		found := only(func(q cfn.Resource) bool { return q.Name == name })
		if len(found) == 0 {
			return cfn.Resource{}, fmt.Errorf("it has no resource %s of type %s; it has: %s", name, queueType, cmp.Or(names(queues), "none"))
		}
		return found[0], nil
	}
	if len(queues) == 0 {
		return cfn.Resource{}, fmt.Errorf("it has no resource of type %s", queueType)
	}
	targets, dead := r.targets()
	found := only(func(q cfn.Resource) bool { return slices.Contains(targets, r.Attribute(q.Name, "Arn")) })
	if len(found) == 0 {
		found = only(func(q cfn.Resource) bool { return !slices.Contains(dead, r.Attribute(q.Name, "Arn")) })
	}
	if len(found) != 1 {
		return cfn.Resource{}, fmt.Errorf("which queue is tested is not clear: rules send to %s; name one by QUEUE=NAME (--queue)", cmp.Or(names(found), "none of "+names(queues)))
	}
	return found[0], nil
}

// targets are the ARNs of what rules send to, and of dead-letter queues.
func (r *templateReader) targets() (targets, dead []string) {
	for _, rule := range r.Resources(ruleType) {
		for _, target := range cfn.List(rule.Properties["Targets"]) {
			target, _ := target.(map[string]any)
			arn, _ := cfn.Text(target["Arn"])
			targets = append(targets, arn)
			if config, has := target["DeadLetterConfig"].(map[string]any); has {
				arn, _ := cfn.Text(config["Arn"])
				dead = append(dead, arn)
			}
		}
	}
	for _, q := range r.Resources(queueType) {
		if policy := redrive(q); policy != nil {
			arn, _ := cfn.Text(policy["deadLetterTargetArn"])
			dead = append(dead, arn)
		}
	}
	return targets, dead
}

// redrive is the RedrivePolicy of a queue, which may be a mapping or a text; nil if it has none.
func redrive(q cfn.Resource) map[string]any {
	return mapping(q.Properties["RedrivePolicy"])
}

// mapping is a mapping, or the one in a text of JSON; nil for anything else.
func mapping(v any) map[string]any {
	if text, is := v.(string); is {
		v, _ = cfn.DecodeValue(text)
	}
	m, _ := v.(map[string]any)
	return m
}

// queue reads the queue's policy and encryption.
func (r *templateReader) queue(q cfn.Resource) (Queue, error) {
	out := Queue{ARN: r.Attribute(q.Name, "Arn"), FIFO: isTrue(q.Properties["FifoQueue"]), Deduplicates: isTrue(q.Properties["ContentBasedDeduplication"])}
	url := r.Attribute(q.Name, "Ref")
	var errs []error
	if q.Condition != "" {
		errs = append(errs, r.decided("whether queue "+q.Name+" exists", q.Condition))
	}
	for _, p := range r.Resources(policyType, inlinePolicyType) {
		of := logic.No
		for _, queue := range append(cfn.List(p.Properties["Queues"]), cfn.List(p.Properties["Queue"])...) {
			text, _ := cfn.Text(queue)
			of = max(of, cfn.Equal(text, url))
		}
		if of == logic.No {
			continue
		}
		switch policy, err := iam.ReadResource(p.Properties["PolicyDocument"]); {
		case err != nil:
			errs = append(errs, fmt.Errorf("policy %s: %w", p.Name, err))
		case of == logic.Maybe:
			out.PolicyUnread = "whether policy " + p.Name + " is of the queue is not decided by the template"
		case p.Condition != "":
			out.PolicyUnread = "whether policy " + p.Name + " exists depends on its condition, which the template does not decide"
		case out.Policy != nil:
			out.PolicyUnread = "the queue has several policies, and the one that is created last counts"
		default:
			out.Policy = &policy
		}
	}
	errs = append(errs, r.key(q, &out))
	return out, errors.Join(errs...)
}

// isTrue reports whether a property is true, which may be a text.
func isTrue(v any) bool {
	text, _ := cfn.Text(v)
	return strings.EqualFold(text, "true")
}

// key reads the key that a queue is encrypted with, and its policy, if the template has it.
func (r *templateReader) key(q cfn.Resource, out *Queue) error {
	id, is := cfn.Text(q.Properties["KmsMasterKeyId"])
	if !is {
		return nil
	}
	out.Key = id
	for _, alias := range r.Resources(aliasType) {
		if name, _ := cfn.Text(alias.Properties["AliasName"]); name == id || name != "" && strings.HasSuffix(id, ":"+name) {
			id, _ = cfn.Text(alias.Properties["TargetKeyId"])
		}
	}
	for _, key := range r.Resources(keyType) {
		if !slices.Contains([]string{r.Attribute(key.Name, "Ref"), r.Attribute(key.Name, "Arn")}, id) {
			continue
		}
		out.Key = r.Attribute(key.Name, "Arn")
		enabled, set := key.Properties["Enabled"]
		out.KeyDisabled = set && !isTrue(enabled)
		policy := iam.Policy{} // without one, only the account may use the key
		if document := key.Properties["KeyPolicy"]; document != nil {
			var err error
			if policy, err = iam.ReadResource(document); err != nil {
				return fmt.Errorf("key %s: its policy: %w", key.Name, err)
			}
		}
		out.KeyPolicy = &policy
	}
	return nil
}

// settings reads the settings of the queue that the emulator keeps to.
func (r *templateReader) settings(q cfn.Resource, out *Template) error {
	deployed, errs := map[string]any{}, []error{}
	for _, name := range []string{"QueueName", "MessageRetentionPeriod", "VisibilityTimeout", "DelaySeconds", "ReceiveMessageWaitTimeSeconds", "MaximumMessageSize", "FifoQueue", "ContentBasedDeduplication"} {
		if v, has := q.Properties[name]; has {
			errs = append(errs, r.decided(q.Name+"."+name, v))
			deployed[name] = natural(v)
		}
	}
	for _, of := range []struct {
		name      string
		into      *time.Duration
		otherwise time.Duration
	}{
		{"VisibilityTimeout", &out.VisibilityTimeout, defaultVisibility}, {"DelaySeconds", &out.Delay, 0}, {"MessageRetentionPeriod", &out.Retention, defaultRetention},
	} {
		*of.into = of.otherwise
		if text, has := cfn.Text(q.Properties[of.name]); has && len(cfn.Symbols(text)) == 0 {
			seconds, err := strconv.Atoi(text)
			if err != nil || seconds < 0 {
				errs = append(errs, fmt.Errorf("%s.%s is %q, not a number of seconds", q.Name, of.name, text))
			}
			*of.into = time.Duration(seconds) * time.Second
		}
	}
	if policy := redrive(q); policy != nil {
		count, _ := cfn.Text(policy["maxReceiveCount"])
		errs = append(errs, r.decided(q.Name+".RedrivePolicy.maxReceiveCount", count))
		out.MaxReceives, _ = strconv.Atoi(count)
		arn, _ := cfn.Text(policy["deadLetterTargetArn"])
		for _, dead := range r.Resources(queueType) {
			if r.Attribute(dead.Name, "Arn") == arn && dead.Name != q.Name {
				plain := map[string]any{}
				if fifo, has := dead.Properties["FifoQueue"]; has {
					plain["FifoQueue"] = fifo
				}
				out.resources[dead.Name] = map[string]any{"Type": queueType, "Properties": plain}
				deployed["RedrivePolicy"] = map[string]any{"deadLetterTargetArn": getAtt(dead.Name), "maxReceiveCount": natural(count)}
			}
		}
	}
	out.resources[q.Name] = map[string]any{"Type": queueType, "Properties": deployed}
	return errors.Join(errs...)
}

func getAtt(resource string) any { return map[string]any{"Fn::GetAtt": []any{resource, "Arn"}} }

// natural is a number instead of its digits: parameters are texts.
func natural(v any) any {
	if text, is := v.(string); is {
		if _, err := strconv.Atoi(text); err == nil && (text == "0" || !strings.HasPrefix(text, "0")) {
			return json.Number(text)
		}
	}
	return v
}

// rules reads the rules that have the queue as a target. Those by which nothing gets there in AWS are not
// deployed: the emulator would send all the same.
func (r *templateReader) rules(out *Template) error {
	var errs []error
	for _, rule := range r.Resources(ruleType) {
		var targets []any
		role, refused := false, ""
		for i, target := range cfn.List(rule.Properties["Targets"]) {
			target, _ := target.(map[string]any)
			arn, _ := cfn.Text(target["Arn"])
			switch cfn.Equal(arn, out.Queue.ARN) {
			case logic.Maybe:
				errs = append(errs, r.decided(fmt.Sprintf("target %d of rule %s", i+1, rule.Name), arn))
			case logic.Yes:
				deployed := map[string]any{"Id": fmt.Sprintf("target-%d", i+1), "Arn": getAtt(out.name)}
				for _, field := range []string{"Input", "InputPath", "InputTransformer", "SqsParameters"} {
					if v, has := target[field]; has {
						errs = append(errs, r.decided(rule.Name+".Targets."+field, v))
						deployed[field] = v
					}
				}
				targets = append(targets, deployed)
				_, role = target["RoleArn"]
				group, _ := cfn.Text(mapping(target["SqsParameters"])["MessageGroupId"])
				refused = out.Queue.refuses(group)
			}
		}
		if len(targets) == 0 {
			continue
		}
		if rule.Condition != "" {
			errs = append(errs, r.decided("whether rule "+rule.Name+" exists", rule.Condition))
		}
		of := Rule{Name: rule.Name, ARN: r.Attribute(rule.Name, "Arn"), Role: role}
		pattern := mapping(rule.Properties["EventPattern"])
		state, _ := cfn.Text(rule.Properties["State"])
		bus, _ := cfn.Text(rule.Properties["EventBusName"])
		errs = append(errs, r.decided(rule.Name+".State", state), r.decided(rule.Name+".EventPattern", pattern))
		if state != "" && len(cfn.Symbols(state)) == 0 && !slices.Contains(eventstypes.RuleState("").Values(), eventstypes.RuleState(state)) {
			errs = append(errs, fmt.Errorf("%s.State is %q; EventBridge has: %v", rule.Name, state, eventstypes.RuleState("").Values()))
		}
		switch {
		case state == "DISABLED":
			of.Silent = "it is DISABLED"
		case bus != "" && bus != defaultBus && !strings.HasSuffix(bus, ":event-bus/"+defaultBus):
			of.Silent = "it is on event bus " + cfn.Printable(bus) + ", and the events of AWS are on the default one"
		case pattern == nil:
			of.Silent = "it has no EventPattern"
		case refused != "":
			of.Silent = refused
		default:
			out.resources[rule.Name] = map[string]any{"Type": ruleType, "Properties": map[string]any{"EventPattern": pattern, "Targets": targets}}
		}
		out.Rules = append(out.Rules, of)
	}
	return errors.Join(errs...)
}

// body is the template that is deployed in LocalStack: the queue, its dead-letter queue and the rules, with
// every function evaluated. Policies and keys are judged and not deployed.
func (t Template) body(region string) (string, error) {
	texts := emulated()
	texts[cfn.Region] = region
	text, err := cfn.JSON(cfn.Replace(map[string]any{"Resources": t.resources}, texts))
	if err != nil {
		return "", fmt.Errorf("write the template that is deployed: %w", err)
	}
	return text, nil
}

// Silent are the rules by which no notice gets to the queue, with the reasons; empty if there are none.
func (t Template) Silent() string {
	var out []string
	for _, r := range t.Rules {
		if r.Silent != "" {
			out = append(out, "rule "+r.Name+": "+r.Silent)
		}
	}
	return strings.Join(out, "; ")
}

// String is what is deployed, for the console.
func (t Template) String() string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(t.resources)), func(name string) bool { return name == t.name })
	return fmt.Sprintf("queue %s (visibility timeout %s, delay %s), with %s", t.name, t.VisibilityTimeout, t.Delay, cmp.Or(strings.Join(names, ", "), "nothing else"))
}

// DeployTemplate creates the queue and the rules of a template. There must be no stack of that cluster. It
// takes up to two minutes.
func (a *AWS) DeployTemplate(ctx context.Context, cluster string, t Template) error {
	ctx, cancel := context.WithTimeout(ctx, stackTimeout)
	defer cancel()
	body, err := t.body(a.region)
	if err != nil {
		return err
	}
	stack := stackName(cluster)
	if err := a.createStack(ctx, stack, body, nil); err != nil {
		return fmt.Errorf("deploy template: %w", err)
	}
	out, err := a.stacks.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &stack})
	if err != nil {
		return fmt.Errorf("deploy template: find its queue: %w", err)
	}
	for _, r := range out.StackResources {
		if aws.ToString(r.LogicalResourceId) == t.name {
			a.queueURL = aws.ToString(r.PhysicalResourceId)
		}
	}
	return nil
}
