package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/uuid"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// Launched is an instance that was launched for the cluster, in addition to its fixed workers.
type Launched struct {
	ID, Type, Zone string
	// Spot reports whether it is a spot instance, according to EC2.
	Spot bool
	// Ended reports whether it is shutting down, or terminated.
	Ended bool
	Tags  map[string]string
}

// The capacity tags of an instance that Karpenter launched.
const (
	NodePoolTag  = "karpenter.sh/nodepool"
	NodeClaimTag = "karpenter.sh/nodeclaim"
)

// Launched returns the instances with the cluster's tag that are not its fixed workers, in
// the order of their ids. LocalStack forgets a terminated one after a while.
func (a *AWS) Launched(ctx context.Context, cluster string) ([]Launched, error) {
	instances, err := a.instances(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("list the instances launched for cluster %s: %w", cluster, err)
	}
	var found []Launched
	for _, instance := range instances {
		if l := launched(instance); l.Tags[workerTag] == "" {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b Launched) int { return strings.Compare(a.ID, b.ID) })
	return found, nil
}

func launched(instance types.Instance) Launched {
	l := Launched{ID: aws.ToString(instance.InstanceId), Type: string(instance.InstanceType), Tags: tagsOf(instance)}
	l.Spot = instance.InstanceLifecycle == types.InstanceLifecycleTypeSpot
	if instance.Placement != nil {
		l.Zone = aws.ToString(instance.Placement.AvailabilityZone)
	}
	if instance.State != nil {
		l.Ended = instance.State.Name == types.InstanceStateNameShuttingDown || instance.State.Name == types.InstanceStateNameTerminated
	}
	return l
}

// Launch is what an instance is launched as.
type Launch struct {
	// Type is an instance type, such as m5.large.
	Type string
	// Zone is its availability zone; empty: that of the fixed workers.
	Zone string
	Spot bool
	// Tags are in addition to those of all instances of the cluster.
	Tags map[string]string
}

// Launch launches one instance for the cluster, and returns its id.
func (a *AWS) Launch(ctx context.Context, cluster string, as Launch) (string, error) {
	tags := map[string]string{clusterTagPrefix + cluster: "owned", managedTag: "true"}
	maps.Copy(tags, as.Tags)
	in := &ec2.RunInstancesInput{
		ImageId:           aws.String(image),
		InstanceType:      types.InstanceType(as.Type),
		MinCount:          aws.Int32(1),
		MaxCount:          aws.Int32(1),
		Placement:         &types.Placement{AvailabilityZone: aws.String(cmp.Or(as.Zone, a.Zone()))},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: inEC2(tags)}},
	}
	if as.Spot {
		in.InstanceMarketOptions = &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot}
	}
	out, err := a.ec2.RunInstances(ctx, in)
	if err != nil {
		return "", fmt.Errorf("launch an instance of type %s: %w", as.Type, err)
	}
	if len(out.Instances) != 1 {
		return "", fmt.Errorf("launch an instance of type %s: got %s", as.Type, history.Count(len(out.Instances), "instance"))
	}
	return aws.ToString(out.Instances[0].InstanceId), nil
}

// Size is how large the instances of a type are.
type Size struct {
	CPUs   int64 // cores
	Memory int64 // bytes
	// Pods is how many the interfaces of such an instance have addresses for, as Amazon's VPC
	// CNI plugin gives them out.
	Pods int64
	// PodENIs is how many pods can have a network interface of their own; 0 if that is not
	// known of the type.
	PodENIs int64
}

// podENIs are the branch interfaces of the types that NodePools of drills permit, from
// https://github.com/aws/amazon-vpc-resource-controller-k8s (pkg/aws/vpc/limits.go). EC2 does
// not report them.
func podENIs(t types.InstanceType) int64 {
	switch t {
	case types.InstanceTypeC5Large, types.InstanceTypeM5Large, types.InstanceTypeM6iLarge:
		return 9
	}
	return 0
}

// SizeOf looks an instance type up.
func (a *AWS) SizeOf(ctx context.Context, instanceType string) (Size, error) {
	out, err := a.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(instanceType)}})
	if err != nil {
		return Size{}, fmt.Errorf("look instance type %s up: %w", instanceType, err)
	}
	if len(out.InstanceTypes) != 1 {
		return Size{}, fmt.Errorf("look instance type %s up: EC2 knows %d of that name", instanceType, len(out.InstanceTypes))
	}
	return sizeOf(out.InstanceTypes[0])
}

func sizeOf(info types.InstanceTypeInfo) (Size, error) {
	if info.VCpuInfo == nil || info.MemoryInfo == nil || info.NetworkInfo == nil {
		return Size{}, fmt.Errorf("look instance type %s up: EC2 does not know its size", info.InstanceType)
	}
	interfaces, addresses := int64(aws.ToInt32(info.NetworkInfo.MaximumNetworkInterfaces)), int64(aws.ToInt32(info.NetworkInfo.Ipv4AddressesPerInterface))
	return Size{
		CPUs:   int64(aws.ToInt32(info.VCpuInfo.DefaultVCpus)),
		Memory: aws.ToInt64(info.MemoryInfo.SizeInMiB) << 20,
		// Each interface keeps one address; two pods use the host's network.
		Pods:    interfaces*(addresses-1) + 2,
		PodENIs: podENIs(info.InstanceType),
	}, nil
}

// For the pods is left what the system, the kubelet and the threshold of eviction leave, as
// on the nodes of Amazon EKS:
// https://github.com/awslabs/amazon-eks-ami (nodeadm, internal/kubelet/reserved.go) and, for
// the share of the hypervisor, https://karpenter.sh/docs/reference/settings/ (VM_MEMORY_OVERHEAD_PERCENT).
const (
	hypervisorShare  = 0.075
	evictionMemory   = 100 << 20
	reservedMemory   = 255 << 20
	reservedPerPod   = 11 << 20
	milliCPUsPerCore = 1000
)

// Capacity is the memory that a node of that size sees, in bytes.
func (s Size) Capacity() int64 { return s.Memory - int64(hypervisorShare*float64(s.Memory)) }

// Allocatable is what a node of that size has for pods: thousandths of a core, and bytes.
func (s Size) Allocatable() (cpu, memory int64) {
	memory = s.Capacity() - evictionMemory - reservedMemory - s.Pods*reservedPerPod
	return s.CPUs*milliCPUsPerCore - reservedCPU(s.CPUs), max(0, memory)
}

// reservedCPU is 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 %
// of all others, in thousandths of a core.
func reservedCPU(cores int64) int64 {
	reserved := 0.0
	for core := range cores {
		switch {
		case core == 0:
			reserved += 60
		case core == 1:
			reserved += 10
		case core < 4:
			reserved += 5
		default:
			reserved += 2.5
		}
	}
	return int64(reserved)
}

// CheckFleet launches a fleet of two instances, as Karpenter does, and terminates them. It returns an error unless EC2's
// answer names both and both have the security group of the launch template. LocalStack does neither by itself.
func (a *AWS) CheckFleet(ctx context.Context) (err error) {
	network, err := a.Network(ctx)
	if err != nil {
		return err
	}
	name := "spotdrill-check-" + uuid.NewString()
	template := types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &name, Version: aws.String("$Latest")}
	if _, err := a.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId:           &network.AMI,
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0), Groups: []string{network.SecurityGroup}}},
	}}); err != nil {
		return fmt.Errorf("create a launch template: %w", err)
	}
	defer func() {
		_, left := a.ec2.DeleteLaunchTemplate(context.WithoutCancel(ctx), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name})
		err = errors.Join(err, wrap.Errorf(left, "delete the launch template"))
	}()
	fleet, err := a.ec2.CreateFleet(ctx, &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &template,
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: types.InstanceTypeC5Large, SubnetId: &network.Subnet}},
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(2), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeSpot},
	})
	if err != nil {
		return fmt.Errorf("launch a fleet of two instances: %w", err)
	}
	var ids []string
	for _, of := range fleet.Instances {
		ids = append(ids, of.InstanceIds...)
		if of.LaunchTemplateAndOverrides == nil || of.LaunchTemplateAndOverrides.Overrides == nil || of.LaunchTemplateAndOverrides.Overrides.InstanceType != types.InstanceTypeC5Large {
			err = errors.Join(err, fmt.Errorf("the answer does not name the type of %q", of.InstanceIds))
		}
	}
	defer func() { err = errors.Join(err, a.Terminate(context.WithoutCancel(ctx), ids)) }()
	if len(ids) != 2 {
		return errors.Join(err, fmt.Errorf("the answer for a fleet of 2 names %s", history.Count(len(ids), "instance")))
	}
	launched, unread := a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids})
	if unread != nil {
		return errors.Join(err, fmt.Errorf("describe the instances of a fleet: %w", unread))
	}
	for _, reservation := range launched.Reservations {
		for _, instance := range reservation.Instances {
			if !slices.ContainsFunc(instance.SecurityGroups, func(g types.GroupIdentifier) bool { return aws.ToString(g.GroupId) == network.SecurityGroup }) {
				err = errors.Join(err, fmt.Errorf("instance %s of a fleet does not have the security group of its launch template", aws.ToString(instance.InstanceId)))
			}
		}
	}
	return err
}
