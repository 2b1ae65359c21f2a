package cloud

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

const (
	clusterTagPrefix = "kubernetes.io/cluster/"
	// managedTag is the tag that the AWS Node Termination Handler looks for by default.
	managedTag = "aws-node-termination-handler/managed"
	// workerTag has the name of the fixed worker that an instance is.
	workerTag = "spotdrill.dev/worker"
	// image is what instances are launched from; LocalStack does not look.
	image = "ami-00000000000000001"
)

// Zone is the availability zone that instances are in.
func (a *AWS) Zone() string { return zoneOf(a.region) }

func zoneOf(region string) string { return region + "a" }

// RunInstances starts one instance for each name and returns their ids by name.
// On an error it also returns the instances that were started before. They have none
// of Karpenter's tags: it would terminate them, because they have no NodeClaim.
func (a *AWS) RunInstances(ctx context.Context, cluster string, names []string) (map[string]string, error) {
	started := make(map[string]string, len(names))
	for _, name := range names {
		id, err := a.Launch(ctx, cluster, Launch{Type: string(types.InstanceTypeM5Large), Tags: map[string]string{"Name": name, workerTag: name}})
		if err != nil {
			return started, fmt.Errorf("run instance %s: %w", name, err)
		}
		started[name] = id
	}
	return started, nil
}

// Instances returns the ids of the pending and running instances that are the cluster's fixed
// workers, by the worker's name. Two instances of one name are an error.
func (a *AWS) Instances(ctx context.Context, cluster string) (map[string]string, error) {
	instances, err := a.instances(ctx, cluster, filter("tag-key", workerTag), filter("instance-state-name", "pending", "running"))
	if err != nil {
		return nil, fmt.Errorf("list instances of cluster %s: %w", cluster, err)
	}
	found := map[string]string{}
	for _, instance := range instances {
		name, id := tagsOf(instance)[workerTag], aws.ToString(instance.InstanceId)
		if other, taken := found[name]; taken {
			return nil, fmt.Errorf("list instances of cluster %s: %s and %s are both called %q", cluster, other, id, name)
		}
		found[name] = id
	}
	return found, nil
}

// instances returns the instances with the cluster's tag that the filters let through.
func (a *AWS) instances(ctx context.Context, cluster string, filters ...types.Filter) ([]types.Instance, error) {
	pages := ec2.NewDescribeInstancesPaginator(a.ec2, &ec2.DescribeInstancesInput{Filters: append(filters, filter("tag:"+clusterTagPrefix+cluster, "owned"))})
	var all []types.Instance
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, reservation := range page.Reservations {
			all = append(all, reservation.Instances...)
		}
	}
	return all, nil
}

func tagsOf(instance types.Instance) map[string]string {
	tags := map[string]string{}
	for _, tag := range instance.Tags {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return tags
}

// Tag sets tags of an instance and replaces those with the same keys.
func (a *AWS) Tag(ctx context.Context, id string, tags map[string]string) error {
	if len(tags) == 0 {
		return nil
	}
	_, err := a.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: inEC2(tags)})
	return wrap.Errorf(err, "tag instance %s", id)
}

func inEC2(tags map[string]string) (out []types.Tag) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return out
}

// filter is for requests that list things.
func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// Network is what an instance of this LocalStack can be launched with.
type Network struct {
	AMI, OtherAMI, Subnet, SecurityGroup string
}

// Network finds two AMIs, and the default subnet and security group of the zone.
// LocalStack chooses other ids at each start.
func (a *AWS) Network(ctx context.Context) (Network, error) {
	images, err := a.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{
		Owners: []string{"amazon"}, Filters: []types.Filter{filter("architecture", "x86_64"), filter("root-device-type", "ebs")},
	})
	if err != nil {
		return Network{}, fmt.Errorf("list images: %w", err)
	}
	subnets, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		Filters: []types.Filter{filter("availability-zone", a.Zone()), filter("default-for-az", "true")},
	})
	if err != nil {
		return Network{}, fmt.Errorf("list subnets: %w", err)
	}
	if len(images.Images) < 2 || len(subnets.Subnets) == 0 {
		return Network{}, fmt.Errorf("LocalStack has %s and %d default subnets in %s, need two and one", history.Count(len(images.Images), "image"), len(subnets.Subnets), a.Zone())
	}
	subnet := subnets.Subnets[0]
	groups, err := a.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("vpc-id", aws.ToString(subnet.VpcId)), filter("group-name", "default")},
	})
	if err != nil {
		return Network{}, fmt.Errorf("list security groups: %w", err)
	}
	if len(groups.SecurityGroups) == 0 {
		return Network{}, fmt.Errorf("LocalStack's network %s has no default security group", aws.ToString(subnet.VpcId))
	}
	return Network{
		AMI: aws.ToString(images.Images[0].ImageId), OtherAMI: aws.ToString(images.Images[1].ImageId), Subnet: aws.ToString(subnet.SubnetId),
		SecurityGroup: aws.ToString(groups.SecurityGroups[0].GroupId),
	}, nil
}

// Terminated reports whether an instance is terminated, or about to be.
func (a *AWS) Terminated(ctx context.Context, id string) (bool, error) {
	out, err := a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		return false, fmt.Errorf("read the state of instance %s: %w", id, err)
	}
	for _, reservation := range out.Reservations {
		for _, instance := range reservation.Instances {
			if s := instance.State; s != nil && s.Name != types.InstanceStateNameShuttingDown && s.Name != types.InstanceStateNameTerminated {
				return false, nil
			}
		}
	}
	return true, nil
}

// Terminate terminates instances by id; without ids it does nothing.
func (a *AWS) Terminate(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	return wrap.Errorf(err, "terminate instances %v", ids)
}
