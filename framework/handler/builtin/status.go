package builtin

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2api "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	// statusEvery is the interval between requests for the status of all instances. EC2 runs its
	// checks every minute.
	statusEvery = 30 * time.Second
	// impairedFor is how long a check must have failed: one fails while an instance restarts.
	// Karpenter waits as long.
	impairedFor = 2 * time.Minute
)

// statuses asks EC2 for the status of instances, for which no message is sent.
type statuses struct{ api *ec2api.Client }

// notices are the instances with a check that has failed for long enough, or with an event that is
// scheduled, as notices with the same id each time.
func (s *statuses) notices(ctx context.Context) ([]notice, error) {
	var out []notice
	for _, filter := range []types.Filter{
		{Name: aws.String("instance-status.status"), Values: []string{string(types.SummaryStatusImpaired)}},
		{Name: aws.String("system-status.status"), Values: []string{string(types.SummaryStatusImpaired)}},
		{Name: aws.String("event.code"), Values: []string{
			string(types.EventCodeInstanceReboot), string(types.EventCodeSystemReboot), string(types.EventCodeSystemMaintenance),
			string(types.EventCodeInstanceRetirement), string(types.EventCodeInstanceStop),
		}},
	} {
		pages := ec2api.NewDescribeInstanceStatusPaginator(s.api, &ec2api.DescribeInstanceStatusInput{Filters: []types.Filter{filter}})
		for pages.HasMorePages() {
			bounded, cancel := context.WithTimeout(ctx, callWithin)
			page, err := pages.NextPage(bounded)
			cancel()
			if err != nil {
				return nil, fmt.Errorf("ask for the status of instances: %w", err)
			}
			for _, found := range page.InstanceStatuses {
				out = append(out, ofStatus(found)...)
			}
		}
	}
	return out, nil
}

func ofStatus(found types.InstanceStatus) []notice {
	instance := aws.ToString(found.InstanceId)
	of := func(what string, since time.Time) notice {
		return notice{
			ID: fmt.Sprintf("%s-%s-%d", instance, what, since.Unix()), Type: what, Action: drain, Cause: statusImpaired,
			Instances: []string{instance}, Sent: since,
		}
	}
	var out []notice
	for what, summary := range map[string]*types.InstanceStatusSummary{"instance-status": found.InstanceStatus, "system-status": found.SystemStatus} {
		if summary == nil {
			continue
		}
		for _, check := range summary.Details {
			if check.Status == types.StatusTypeFailed && check.ImpairedSince != nil && time.Since(*check.ImpairedSince) >= impairedFor {
				out = append(out, of(what, *check.ImpairedSince))
			}
		}
	}
	for _, event := range found.Events {
		out = append(out, of(string(event.Code), aws.ToTime(event.NotBefore)))
	}
	return out
}

// watchStatus acts on what EC2 finds until ctx is done: once on each finding, and again while that
// fails. A finding that is over may come again.
func (d *dispatcher) watchStatus(ctx context.Context, s *statuses) {
	settled := map[string]bool{}
	for {
		found, err := s.notices(ctx)
		if err != nil && ctx.Err() == nil {
			d.log.Warn("the status of instances is unknown", "error", err)
		}
		now := map[string]bool{}
		for _, n := range found {
			if now[n.ID] = settled[n.ID]; now[n.ID] {
				continue
			}
			result, err := d.settle(ctx, d.log, n)
			d.log.Info("status settled", "notice", n.ID, "result", result, "error", err)
			now[n.ID] = result != resultFailed
		}
		if err == nil {
			settled = now
		}
		if !sleep(ctx, statusEvery) {
			return
		}
	}
}
