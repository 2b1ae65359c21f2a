package cloud

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestSizes(t *testing.T) {
	type allocatable struct{ cpu, memory int64 }
	for name, c := range map[string]struct {
		cpus, mib, interfaces, addresses int64
		pods                             int64
		want                             allocatable
	}{
		// https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/eni-max-pods.txt
		"t3.medium":   {2, 4096, 3, 6, 17, allocatable{1930, 3246}},
		"m5.large":    {2, 8192, 3, 10, 29, allocatable{1930, 6903}},
		"m5.xlarge":   {4, 16384, 4, 15, 58, allocatable{3920, 14162}},
		"m5.24xlarge": {96, 393216, 15, 50, 737, allocatable{95690, 355262}},
	} {
		got, err := sizeOf(types.InstanceTypeInfo{
			VCpuInfo: &types.VCpuInfo{DefaultVCpus: aws.Int32(int32(c.cpus))}, MemoryInfo: &types.MemoryInfo{SizeInMiB: aws.Int64(c.mib)},
			NetworkInfo: &types.NetworkInfo{MaximumNetworkInterfaces: aws.Int32(int32(c.interfaces)), Ipv4AddressesPerInterface: aws.Int32(int32(c.addresses))},
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := (Size{CPUs: c.cpus, Memory: c.mib << 20, Pods: c.pods}); got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
		cpu, memory := got.Allocatable()
		if a := (allocatable{cpu, memory >> 20}); a != c.want {
			t.Errorf("%s leaves %+v, want %+v", name, a, c.want)
		}
	}
	if _, err := sizeOf(types.InstanceTypeInfo{InstanceType: "x1.none"}); err == nil {
		t.Error("an instance type without a size is no error")
	}
}

func TestWhatWasLaunched(t *testing.T) {
	got := launched(types.Instance{
		InstanceId: aws.String("i-1"), InstanceType: types.InstanceTypeM5Large, InstanceLifecycle: types.InstanceLifecycleTypeSpot,
		Placement: &types.Placement{AvailabilityZone: aws.String("ap-northeast-2c")},
		State:     &types.InstanceState{Name: types.InstanceStateNameShuttingDown},
		Tags:      []types.Tag{{Key: aws.String(NodePoolTag), Value: aws.String("spot")}},
	})
	if got.ID != "i-1" || got.Type != "m5.large" || got.Zone != "ap-northeast-2c" || !got.Spot || !got.Ended || got.Tags[NodePoolTag] != "spot" {
		t.Errorf("got %+v", got)
	}
	if got := launched(types.Instance{InstanceId: aws.String("i-2"), State: &types.InstanceState{Name: types.InstanceStateNamePending}}); got.Ended || got.Spot {
		t.Errorf("a pending on-demand instance: %+v", got)
	}
}

func TestLocalStackLaunchesBesideTheFixedWorkers(t *testing.T) {
	d := realStack(t, "launches")
	cluster := fmt.Sprintf("launches-%d", time.Now().UnixNano())
	fixed, err := d.RunInstances(t.Context(), cluster, []string{"worker"})
	if err != nil {
		t.Fatal(err)
	}
	id, err := d.Launch(t.Context(), cluster, Launch{Type: "c5.large", Zone: testRegion + "c", Spot: true})
	if err != nil {
		t.Fatal(err)
	}
	find := func() []Launched {
		found, err := d.Launched(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	found := find()
	if len(found) != 1 || found[0].ID != id || found[0].Type != "c5.large" || found[0].Zone != testRegion+"c" || !found[0].Spot || found[0].Ended {
		t.Fatalf("launched %s, found %+v", id, found)
	}
	workers, err := d.Instances(t.Context(), cluster)
	if err != nil || len(workers) != 1 || workers["worker"] != fixed["worker"] {
		t.Errorf("the fixed workers are %v, want %v (%v)", workers, fixed, err)
	}
	if err := d.Terminate(t.Context(), []string{id, fixed["worker"]}); err != nil {
		t.Fatal(err)
	}
	if found := find(); slices.ContainsFunc(found, func(l Launched) bool { return !l.Ended }) {
		t.Errorf("after termination: %+v", found)
	}
	size, err := d.SizeOf(t.Context(), "m5.large")
	if want := (Size{CPUs: 2, Memory: 8 << 30, Pods: 29, PodENIs: 9}); err != nil || size != want {
		t.Errorf("m5.large is %+v, want %+v (%v)", size, want, err)
	}
	if _, err := d.SizeOf(t.Context(), "m5.enormous"); err == nil {
		t.Error("an unknown instance type is no error")
	}
}

// Karpenter requests several instances by one call, and takes those that the answer does not
// name for a lack of capacity: they would run for ever.
func TestLocalStackAnswersWithEveryInstanceOfAFleet(t *testing.T) {
	d := realStack(t, "fleet")
	cluster := fmt.Sprintf("fleet-%d", time.Now().UnixNano())
	template, err := d.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(cluster),
		LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(image)},
	})
	if err != nil {
		t.Fatal(err)
	}
	override := types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceTypeC5Large}
	fleet, err := d.ec2.CreateFleet(t.Context(), &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateId: template.LaunchTemplate.LaunchTemplateId, Version: aws.String("$Latest"),
			},
			Overrides: []types.FleetLaunchTemplateOverridesRequest{override},
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(2), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeSpot,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, of := range fleet.Instances {
		ids = append(ids, of.InstanceIds...)
		if of.LaunchTemplateAndOverrides == nil || of.LaunchTemplateAndOverrides.Overrides == nil {
			t.Errorf("the answer does not show which type %q are", of.InstanceIds)
		}
	}
	if len(ids) != 2 {
		t.Errorf("the fleet of 2 has the instances %q", ids)
	}
	if err := d.Terminate(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
}
