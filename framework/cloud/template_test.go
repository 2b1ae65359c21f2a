package cloud

import (
	"strings"
	"testing"
)

func TestQueueParts(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		named    bool
		want     []string // each in the result
		gone     []string
	}{
		"our own stays whole": {
			stackTemplate, true, []string{"!GetAtt Queue.Arn", "!Ref ClusterName", "ScheduledChange:", "SpotInterruption:", "RebalanceRecommendation:", "StateChange:", "CapacityReservationInterruption:", "QueuePolicy:"}, nil,
		},
		"roles and outputs are left out": {
			`{"Parameters": {"Stage": {"Type": "String", "Default": "test"}}, "Resources": {"Role": {"Type": "AWS::IAM::Role"}, "Notices": {"Type": "AWS::SQS::Queue"}}, "Outputs": {"Arn": {"Value": {"Ref": "Role"}}}}`,
			false,
			[]string{"Notices", "Stage"},
			[]string{"Role", "Outputs"},
		},
		"a function's short form stays": {
			"Parameters: {ClusterName: {Type: String}}\nResources:\n  Q:\n    Type: AWS::SQS::Queue\n    Properties: {QueueName: !Sub \"${ClusterName}-notices\"}\n",
			true,
			[]string{"!Sub"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, named, err := queueParts(c.template)
			if err != nil {
				t.Fatal(err)
			}
			if named != c.named {
				t.Errorf("has the parameter for the cluster's name: %t, want %t", named, c.named)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in:\n%s", want, got)
				}
			}
			for _, gone := range c.gone {
				if strings.Contains(got, gone) {
					t.Errorf("%q is left in:\n%s", gone, got)
				}
			}
		})
	}
}

func TestQueuePartsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"no YAML":      {"Resources: [", "yaml:"},
		"a list":       {"- Resources", "it is not a mapping"},
		"nothing":      {"", "it is not a mapping"},
		"no resources": {"Parameters: {}", "it has no Resources"},
		"no queue":     {"Resources: {R: {Type: AWS::Events::Rule}}", "0 resources of type AWS::SQS::Queue, want one"},
		"two queues":   {"Resources: {A: {Type: AWS::SQS::Queue}, B: {Type: AWS::SQS::Queue}}", "2 resources of type AWS::SQS::Queue, want one"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := queueParts(c.template); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
