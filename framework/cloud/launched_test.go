package cloud

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
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
