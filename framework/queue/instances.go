package queue

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	clusterTagPrefix = "kubernetes.io/cluster/"
	// managedTag is what the node termination handler looks for by default.
	managedTag = "aws-node-termination-handler/managed"
)

// Zone is the availability zone that instances are in.
func (a *AWS) Zone() string { return zoneOf(a.region) }

func zoneOf(region string) string { return region + "a" }

// RunInstances starts one instance for each name and returns their ids by name.
// What was started before an error is returned with it. The instances carry
// none of Karpenter's tags: it would terminate them for want of a NodeClaim.
func (a *AWS) RunInstances(ctx context.Context, cluster string, names []string) (map[string]string, error) {
	started := make(map[string]string, len(names))
	for _, name := range names {
		out, err := a.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
			ImageId:      aws.String("ami-00000000000000001"),
			InstanceType: types.InstanceTypeM5Large,
			MinCount:     aws.Int32(1),
			MaxCount:     aws.Int32(1),
			Placement:    &types.Placement{AvailabilityZone: aws.String(a.Zone())},
			TagSpecifications: []types.TagSpecification{{
				ResourceType: types.ResourceTypeInstance,
				Tags: []types.Tag{
					{Key: aws.String("Name"), Value: aws.String(name)},
					{Key: aws.String(clusterTagPrefix + cluster), Value: aws.String("owned")},
					{Key: aws.String(managedTag), Value: aws.String("true")},
				},
			}},
		})
		if err != nil {
			return started, fmt.Errorf("run instance %s: %w", name, err)
		}
		if len(out.Instances) != 1 {
			return started, fmt.Errorf("run instance %s: got %d instances", name, len(out.Instances))
		}
		started[name] = aws.ToString(out.Instances[0].InstanceId)
	}
	return started, nil
}

// Instances returns the ids of the cluster's pending and running instances by
// name. Two instances of one name are an error.
func (a *AWS) Instances(ctx context.Context, cluster string) (map[string]string, error) {
	found := map[string]string{}
	pages := ec2.NewDescribeInstancesPaginator(a.ec2, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: aws.String("tag:" + clusterTagPrefix + cluster), Values: []string{"owned"}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running"}},
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list instances of cluster %s: %w", cluster, err)
		}
		for _, reservation := range page.Reservations {
			for _, instance := range reservation.Instances {
				name, id := nameOf(instance), aws.ToString(instance.InstanceId)
				if other, taken := found[name]; taken {
					return nil, fmt.Errorf("list instances of cluster %s: %s and %s are both called %q", cluster, other, id, name)
				}
				found[name] = id
			}
		}
	}
	return found, nil
}

// Terminate ends the instances of these ids; without any it does nothing.
func (a *AWS) Terminate(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}); err != nil {
		return fmt.Errorf("terminate instances %v: %w", ids, err)
	}
	return nil
}

func nameOf(instance types.Instance) string {
	for _, tag := range instance.Tags {
		if aws.ToString(tag.Key) == "Name" {
			return aws.ToString(tag.Value)
		}
	}
	return ""
}
