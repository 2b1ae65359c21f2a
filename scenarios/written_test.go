package scenarios_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/verdict"
	. "github.com/spotdrill/spotdrill/scenarios"
)

// written is a scenario as a user writes it: a header, and what is particular to it.
func written(particular string) (Scenario, error) {
	const header = `apiVersion: spotdrill.dev/v1alpha1
kind: Scenario
name: written
title: A scenario
description: Why.
source: https://example.com/
profile: RESILIENCE
sets: [fast]
workload: {replicas: 4}
nodes: {victim: {capacity: spot}}
deadline: {fast: 25s, full: 120s}
settle: 3s
`
	return verdict.Scenarios().Parse("written.yaml", []byte(header+particular))
}

func TestWhatUsersWrite(t *testing.T) {
	const hook = `
- message: {name: ending, body: '{"LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING", "EC2InstanceId": "${INSTANCE:victim}"}'}
`
	const test = `
- message: {name: test, body: '{"Event": "autoscaling:TEST_NOTIFICATION"}'}
`
	for name, c := range map[string]struct {
		particular, want string   // the error; empty for none
		notice           []string // the nodes for which the first message is a notice
	}{
		"a hook that sends to the queue itself": {"steps:" + hook + `checks:
- deleted: {of: ending, within: 20s}
- marked: {node: victim, notice: ending, within: 5s}
- drained: {node: victim, notice: ending}`, "", []string{"victim"}},
		"a hook in an envelope of SNS": {`steps:
- message: {name: ending, body: '{"Type": "Notification", "Message": "{\"EC2InstanceId\": \"${INSTANCE:victim}\"}"}'}
checks:
- drained: {node: victim, notice: ending}`, "", []string{"victim"}},
		"a message that names a node, and calls for nothing there": {"steps:" + hook + `checks:
- deleted: {of: ending, within: 20s}
- untouched: {node: victim}`, "", nil},
		"a test that names no node": {"steps:" + test + `- notice: {name: reclaim, type: spot-interruption, nodes: [victim]}
- await: {drained: victim, timeout: 25s}
checks:
- deleted: {of: test, within: 20s}
- drained: {node: victim, notice: reclaim}`, "", nil},
		"a drain for a message that names no node": {"steps:" + test + `checks:
- drained: {node: victim, notice: test}`, `checks[0].drained.notice: "test" is not known`, nil},
		"a drain of another node than the message's": {"nodes: {}\nsteps:" + hook + `checks:
- drained: {node: victim, notice: ending}`, "already defined", nil},
		"a node that is lost without a notice": {`probe: {}
steps:
- reclaim: {node: victim}
checks:
- losses: {of: dns, mode: fresh, maxWindow: 60s}`, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := written(c.particular)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m := s.Steps[0].Message; m != nil && !slices.Equal(s.NoticeIn(*m), c.notice) {
				t.Errorf("a notice for %q, want %q", s.NoticeIn(*m), c.notice)
			}
		})
	}
}
