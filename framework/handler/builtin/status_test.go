package builtin

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestWhatIsReadFromAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := func(since time.Duration) *types.InstanceStatusSummary {
			return &types.InstanceStatusSummary{Details: []types.InstanceStatusDetails{{Status: types.StatusTypeFailed, ImpairedSince: aws.Time(time.Now().Add(-since))}}}
		}
		passed := &types.InstanceStatusSummary{Details: []types.InstanceStatusDetails{{Status: types.StatusTypePassed}}}
		for name, c := range map[string]struct {
			found types.InstanceStatus
			want  []string
		}{
			"well":                           {types.InstanceStatus{InstanceStatus: passed, SystemStatus: passed}, nil},
			"its own check":                  {types.InstanceStatus{InstanceStatus: failed(3 * time.Minute), SystemStatus: passed}, []string{"instance-status"}},
			"its own check, a minute ago":    {types.InstanceStatus{InstanceStatus: failed(time.Minute), SystemStatus: passed}, nil},
			"the system's check":             {types.InstanceStatus{InstanceStatus: passed, SystemStatus: failed(time.Hour)}, []string{"system-status"}},
			"an event, however far it is":    {types.InstanceStatus{Events: []types.InstanceStatusEvent{{Code: types.EventCodeInstanceRetirement, NotBefore: aws.Time(time.Now().Add(99 * time.Hour))}}}, []string{"instance-retirement"}},
			"no check, as of a new instance": {types.InstanceStatus{}, nil},
		} {
			c.found.InstanceId = aws.String(victim)
			var got []string
			for _, n := range ofStatus(c.found) {
				got = append(got, n.Type)
				if n.Action != drain || n.Cause != statusImpaired || !slices.Equal(n.Instances, []string{victim}) || n.ID != ofStatus(c.found)[0].ID {
					t.Errorf("%s: %+v", name, n)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	})
}
