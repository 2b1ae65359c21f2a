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
	return writtenFor(verdict.Scenarios(), particular)
}

func writtenFor(loader Loader, particular string) (Scenario, error) {
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
	return loader.Parse("written.yaml", []byte(header+particular))
}

func corednsOf(settings string) string {
	return "coredns: {" + settings + "}\nprobe: {}\nsteps:\n- reclaim: {node: victim}\nchecks:\n- losses: {of: dns, mode: fresh, maxWindow: 60s}"
}

func probeOf(settings string) string {
	return "probe: {" + settings + "}\nsteps:\n- reclaim: {node: victim}\nchecks:\n- losses: {of: dns, mode: all, maxWindow: 60s}"
}

// onPort is a scenario with that port and Corefile.
func onPort(port string, lines ...string) string {
	text := "coredns:\n  corefile: |\n    " + strings.Join(lines, "\n    ")
	if port != "" {
		text += "\n  port: " + port
	}
	return text + "\nprobe: {}\nsteps:\n- reclaim: {node: victim}\nchecks:\n- losses: {of: dns, mode: fresh, maxWindow: 60s}"
}

// corefileOf is a scenario with an own Corefile of one server block.
func corefileOf(lines ...string) string {
	return "coredns:\n  corefile: |\n    .:53 {\n      " + strings.Join(lines, "\n      ") + "\n    }\nprobe: {}\nsteps:\n- reclaim: {node: victim}\nchecks:\n- losses: {of: dns, mode: fresh, maxWindow: 60s}"
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
		"a hook behind an envelope of SNS, and its mark": {`steps:
- message: {name: ending, body: '{"Type": "Notification", "Message": "{\"LifecycleTransition\": \"autoscaling:EC2_INSTANCE_TERMINATING\", \"EC2InstanceId\": \"${INSTANCE:victim}\"}"}'}
- await: {drained: victim, timeout: 25s}
checks:
- marked: {node: victim, notice: ending, within: 5s}`, "", []string{"victim"}},
		"a test that names no node": {"steps:" + test + `- notice: {name: reclaim, type: spot-interruption, nodes: [victim]}
- await: {drained: victim, timeout: 25s}
checks:
- deleted: {of: test, within: 20s}
- drained: {node: victim, notice: reclaim}`, "", nil},
		"a drain for a message that names no node": {"steps:" + test + `checks:
- drained: {node: victim, notice: test}`, `checks[0].drained.notice: "test" is not known`, nil},
		"a drain of another node than the message's": {"nodes: {}\nsteps:" + hook + `checks:
- drained: {node: victim, notice: ending}`, "already defined", nil},
		"CoreDNS as operators write it": {`coredns:
  lameduck: 20s
  readiness: {period: 3s}
  gracePeriod: 40s
  preStop: 5s
  tolerations: [{operator: Exists}, {key: dedicated, value: dns, effect: NoSchedule}, {key: spot, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
  corefile: |
    .:53 {
        whoami
    }
probe: {}
steps:
- reclaim: {node: victim}
checks:
- losses: {of: dns, mode: fresh, maxWindow: 60s}`, "", nil},
		"a grace period that preStop and lameduck fill":         {corednsOf("preStop: 25s"), "coredns.gracePeriod: 30s is not a whole number of seconds above preStop and lameduck together (30s)", nil},
		"a grace period that may be too short":                  {corednsOf("preStop: 25s, unsafe: true"), "", nil},
		"half a second":                                         {corednsOf("preStop: 2500ms"), "coredns.preStop: 2.5s is not a whole number of seconds", nil},
		"a toleration of nothing":                               {corednsOf("tolerations: [{effect: NoSchedule}]"), "coredns.tolerations[0]: needs a key, or operator Exists", nil},
		"a toleration of no operator":                           {corednsOf("tolerations: [{key: a, operator: In}]"), `coredns.tolerations[0].operator: "In" is not known; allowed: Equal, Exists`, nil},
		"a toleration of no effect":                             {corednsOf("tolerations: [{key: a, effect: NoStart}]"), `coredns.tolerations[0].effect: "NoStart" is not known; allowed: NoSchedule, PreferNoSchedule, NoExecute`, nil},
		"a toleration of any and of one value":                  {corednsOf("tolerations: [{key: a, operator: Exists, value: b}]"), "coredns.tolerations[0].value: is not allowed with operator Exists", nil},
		"a toleration that ends of a taint that does not evict": {corednsOf("tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 5}]"), "coredns.tolerations[0].tolerationSeconds: needs effect NoExecute", nil},
		"a Corefile on one line":                                {corednsOf("corefile: '.:53 { whoami }'"), "coredns.corefile: CoreDNS does not start with it: line 1: a closing brace", nil},
		"a Corefile with a plugin that is none":                 {corefileOf("whoami", "kubernets"), "coredns.corefile: CoreDNS does not start with it: line 3: ", nil},
		"a Corefile with an import":                             {corefileOf("import custom/*.override"), "coredns.corefile: it depends on custom/*.override", nil},
		"a Corefile with a lameduck of somewhere":               {corefileOf("health {", "lameduck {$LAMEDUCK}", "}"), "coredns.lameduck: is required: that of the Corefile is unknown: line 3: lameduck {$LAMEDUCK}: the value of this environment variable is unknown", nil},
		"a Corefile whose ready no probe reaches":               {corefileOf("ready 127.0.0.1:8181"), "coredns.corefile: ready is at 127.0.0.1:8181, which the readiness probe does not reach", nil},
		"a Corefile whose health none reaches":                  {corefileOf("health 127.0.0.1:8080"), "coredns.corefile: health is at 127.0.0.1:8080, which the liveness probe does not reach", nil},
		"a port that is none":                                   {corednsOf("port: 65536"), "coredns.port: 65536 is not within 1 to 65535", nil},
		"a negative port":                                       {corednsOf("port: -1"), "coredns.port: -1 is not within 1 to 65535", nil},
		"a port in words":                                       {corednsOf("port: dns"), "written.yaml:13: cannot construct !!str `dns` into int", nil},
		"a port that health needs":                              {corednsOf("port: 8080"), "coredns.port: CoreDNS needs 8080 itself", nil},
		"a port that the Corefile's ready needs":                {onPort("9191", ".:9191 {", "ready :9191", "}"), "coredns.port: CoreDNS needs 9191 itself", nil},
		"a traffic distribution that is none":                   {corednsOf("trafficDistribution: PreferLocal"), `coredns.trafficDistribution: "PreferLocal" is not known`, nil},
		"a Corefile at another port":                            {onPort("5353", ".:53 {", "}"), "coredns.corefile: the Service sends all queries to port 5353 of the pods, but line 1: the server block .:53 is at port 53; set coredns.port", nil},
		"a Corefile at another port by default":                 {onPort("5353", ". {", "}"), "the server block . is at port 53", nil},
		"a Corefile at another port than 53":                    {onPort("", ".:5353 {", "}"), "the Service sends all queries to port 53 of the pods, but line 1: the server block .:5353 is at port 5353", nil},
		"a Corefile with a zone at another port":                {onPort("5353", ".:5353 {", "}", "example.test:53 {", "}"), "the server block example.test:53 is at port 53", nil},
		"a Corefile at a port that is unknown":                  {onPort("5353", ".:{$PORT} {", "}"), "the port of the server block .:{$PORT} is unknown", nil},
		"a Corefile at the port":                                {onPort("5353", ".:5353 {", "whoami", "}", "example.test:5353 {", "whoami", "}"), "", nil},
		"a Corefile with other ports":                           {corefileOf("health :8081", "ready :8282"), "", nil},
		"UDP and TCP":                                           {probeOf("transport: [udp, tcp]"), "", nil},
		"both":                                                  {probeOf("transport: both"), "", nil},
		"a list of one":                                         {probeOf("transport: [tcp]"), "", nil},
		"a transport that is none":                              {probeOf("transport: sctp"), `probe.transport: "sctp" is not known; allowed: udp, tcp, both`, nil},
		"a list with one that is none":                          {probeOf("transport: [udp, sctp]"), `transport [sctp udp] is not known; allowed: udp, tcp, or both of them`, nil},
		"a list with one twice":                                 {probeOf("transport: [udp, udp]"), `transport [udp udp] is not known`, nil},
		"an empty list":                                         {probeOf("transport: []"), `must be a word or a list of words, none of them empty`, nil},
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

// What is arranged has the file's values, and none of its comments.
func TestWhatIsArrangedIsAsWritten(t *testing.T) {
	s, err := written(corefileOf("whoami # of CoreDNS", "log") + "\n# the end")
	if err != nil {
		t.Fatal(err)
	}
	got := s.Arranged()
	_, got, _ = strings.Cut(got, "\n")
	const want = `  workload: {replicas: 4}
  deadline: {fast: 25s, full: 120s}
  coredns:
    corefile: |
      .:53 {
        whoami # of CoreDNS
        log
      }
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
