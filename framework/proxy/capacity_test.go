package proxy

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
)

// ec2Client is the SDK's own client, as a handler has one, without retries.
func ec2Client(endpoint string) *ec2.Client {
	return ec2.New(ec2.Options{
		BaseEndpoint: &endpoint, Region: testRegion, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: &http.Client{Transport: &http.Transport{}}, Retryer: aws.NopRetryer{},
	})
}

// fleet requests one instance from three pools, as Karpenter does.
func fleet(capacity types.DefaultTargetCapacityType) *ec2.CreateFleetInput {
	pool := func(instanceType types.InstanceType, zone string) types.FleetLaunchTemplateOverridesRequest {
		return types.FleetLaunchTemplateOverridesRequest{InstanceType: instanceType, SubnetId: aws.String("subnet-" + zone), AvailabilityZone: aws.String(zone)}
	}
	template := func(name string, pools ...types.FleetLaunchTemplateOverridesRequest) types.FleetLaunchTemplateConfigRequest {
		return types.FleetLaunchTemplateConfigRequest{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &name, Version: aws.String("$Latest")},
			Overrides:                   pools,
		}
	}
	return &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{
			template("amd64", pool(types.InstanceTypeM5Large, "2a"), pool(types.InstanceTypeM5Large, "2c")),
			template("arm64", pool(types.InstanceTypeM7gLarge, "2a")),
		},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{DefaultTargetCapacityType: capacity, TotalTargetCapacity: aws.Int32(1)},
	}
}

func TestAFleetWithoutCapacityNamesEachPool(t *testing.T) {
	q := newFaultyQueue(t)
	q.set(t, fault.Fault{On: history.OnEC2, Name: "none", Type: history.NoCapacity, Count: 1})
	out, err := ec2Client(q.endpoint).CreateFleet(t.Context(), fleet(types.DefaultTargetCapacityTypeSpot))
	if err != nil || out.FleetId == nil || len(out.Instances) != 0 {
		t.Fatalf("the client reads %+v, %v; want a fleet without instances", out, err)
	}
	var pools []string
	for _, e := range out.Errors {
		of, at := e.LaunchTemplateAndOverrides.LaunchTemplateSpecification, e.LaunchTemplateAndOverrides.Overrides
		if *e.ErrorCode != "InsufficientInstanceCapacity" || *e.ErrorMessage == "" || e.Lifecycle != types.InstanceLifecycleSpot {
			t.Errorf("error %+v", e)
		}
		pools = append(pools, *of.LaunchTemplateName+*of.Version+" "+string(at.InstanceType)+" "+*at.SubnetId+" "+*at.AvailabilityZone)
	}
	if want := []string{"amd64$Latest m5.large subnet-2a 2a", "amd64$Latest m5.large subnet-2c 2c", "arm64$Latest m7g.large subnet-2a 2a"}; !slices.Equal(pools, want) {
		t.Errorf("errors for %q, want %q", pools, want)
	}
	if len(q.calls) != 0 {
		t.Errorf("LocalStack got %q", q.calls)
	}
	q.wantEvents(t, "fault.begun none no-capacity", "fault.hit none no-capacity ec2:CreateFleet", "fault.ended none count")
	awaitEvent(t, q.rec, func(e history.Event) bool {
		return e.Action == "ec2:CreateFleet" && e.Status == http.StatusOK && e.ErrorCode() == "InsufficientInstanceCapacity"
	})
}

func TestAnInstanceWithoutCapacity(t *testing.T) {
	for code, status := range map[history.ErrorCode]int{
		history.InsufficientInstanceCapacity: http.StatusInternalServerError,
		history.MaxSpotInstanceCountExceeded: http.StatusBadRequest,
		history.VcpuLimitExceeded:            http.StatusBadRequest,
		history.SpotMaxPriceTooLow:           http.StatusBadRequest,
	} {
		q := newFaultyQueue(t)
		q.set(t, fault.Fault{On: history.OnEC2, Name: "none", Type: history.NoCapacity, Code: code, Count: 1})
		_, err := ec2Client(q.endpoint).RunInstances(t.Context(), &ec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
			InstanceMarketOptions: &types.InstanceMarketOptionsRequest{MarketType: types.MarketTypeSpot},
		})
		var refused smithy.APIError
		var response interface{ HTTPStatusCode() int }
		if !errors.As(err, &refused) || refused.ErrorCode() != string(code) || refused.ErrorMessage() == "" {
			t.Errorf("%s: the client reads %v", code, err)
		}
		if !errors.As(err, &response) || response.HTTPStatusCode() != status {
			t.Errorf("%s: not with status %d: %v", code, status, err)
		}
	}
}

func TestOnlyLaunchesLackCapacity(t *testing.T) {
	q := newFaultyQueue(t, "a")
	q.set(t, fault.Fault{On: history.OnEC2, Name: "none", Type: history.NoCapacity, Capacity: "spot", Count: 5})
	client := ec2Client(q.endpoint)
	// What the queue answers is nothing of EC2's: the client's errors do not matter here.
	_, _ = client.CreateFleet(t.Context(), fleet(types.DefaultTargetCapacityTypeOnDemand))
	later := fleet(types.DefaultTargetCapacityTypeSpot)
	later.Type = types.FleetTypeMaintain
	_, _ = client.CreateFleet(t.Context(), later)
	_, _ = client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{"i-1"}})
	_, _ = client.RunInstances(t.Context(), &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
	if got, err := q.receive(t.Context(), 1, 0); err != nil || len(got) != 1 {
		t.Errorf("received %v, %v", got, err)
	}
	if len(q.calls) != 5 {
		t.Errorf("%d calls reached LocalStack, want all 5", len(q.calls))
	}
	q.wantEvents(t, "fault.begun none no-capacity")
}
