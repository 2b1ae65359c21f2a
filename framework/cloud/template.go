package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"go.yaml.in/yaml/v4"
)

// clusterParameter is the template's parameter for the cluster's name, which the
// user's own template may lack.
const clusterParameter = "ClusterName"

// queueType is the resource that a template must have exactly one of.
const queueType = "AWS::SQS::Queue"

// partTypes are the resources of a template that decide what reaches the queue.
func partTypes() []string {
	return []string{queueType, "AWS::SQS::QueuePolicy", "AWS::Events::Rule"}
}

// DeployTemplate creates the queue and the rules of the user's own CloudFormation
// template (YAML or JSON), without its roles and other resources. Parameters other
// than ClusterName must have defaults. There must be no stack of that name. It takes
// up to two minutes.
func (a *AWS) DeployTemplate(ctx context.Context, cluster, template string) error {
	ctx, cancel := context.WithTimeout(ctx, stackTimeout)
	defer cancel()
	parts, named, err := queueParts(template)
	if err != nil {
		return fmt.Errorf("read template: %w", err)
	}
	var parameters []types.Parameter
	if named {
		parameters = parametersOf(cluster)
	}
	stack := stackName(cluster)
	if err := a.createStack(ctx, stack, parts, parameters); err != nil {
		return fmt.Errorf("deploy template: %w", err)
	}
	out, err := a.stacks.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &stack})
	if err != nil {
		return fmt.Errorf("deploy template: find its queue: %w", err)
	}
	for _, r := range out.StackResources {
		if aws.ToString(r.ResourceType) == queueType {
			a.queueURL = aws.ToString(r.PhysicalResourceId)
		}
	}
	return nil
}

// queueParts reduces a template to the resources that decide what reaches its one
// queue, and reports whether it has the parameter for the cluster's name. Intrinsic
// functions are kept.
func queueParts(template string) (parts string, named bool, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(template), &doc); err != nil {
		return "", false, err
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return "", false, errors.New("it is not a mapping")
	}
	root := doc.Content[0]
	resources := field(root, "Resources")
	if resources == nil || resources.Kind != yaml.MappingNode {
		return "", false, errors.New("it has no Resources")
	}
	var kept []*yaml.Node
	queues := 0
	for pair := range slices.Chunk(resources.Content, 2) {
		of := field(pair[1], "Type")
		if of == nil || !slices.Contains(partTypes(), of.Value) {
			continue
		}
		if of.Value == queueType {
			queues++
		}
		kept = append(kept, pair...)
	}
	if queues != 1 {
		return "", false, fmt.Errorf("it has %d resources of type %s, want one", queues, queueType)
	}
	resources.Content = kept
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == "Outputs" { // they may refer to removed resources
			root.Content = slices.Delete(root.Content, i, i+2)
			break
		}
	}
	out, err := yaml.Marshal(&doc)
	if err != nil {
		return "", false, err
	}
	parameters := field(root, "Parameters")
	return string(out), parameters != nil && field(parameters, clusterParameter) != nil, nil
}

// field is the value of a mapping's key, nil if it has none.
func field(mapping *yaml.Node, name string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for pair := range slices.Chunk(mapping.Content, 2) {
		if pair[0].Value == name {
			return pair[1]
		}
	}
	return nil
}
