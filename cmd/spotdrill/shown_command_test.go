package main

import (
	"strings"
	"testing"
)

func TestAReportShowsWhatWasObservedWithoutSecrets(t *testing.T) {
	for command, want := range map[string]string{
		"kubectl drain ip-10-0-1-23.eu-west-1.compute.internal --ignore-daemonsets --timeout=5m": "kubectl drain ip-10-0-1-23.eu-west-1.compute.internal --ignore-daemonsets --timeout=5m",
		"kubectl -n kube-system rollout restart deployment coredns":                              "kubectl -n kube-system rollout restart deployment coredns",
		"aws ec2 terminate-instances --instance-ids i-0123456789abcdef0":                         "aws ec2 terminate-instances --instance-ids i-0123456789abcdef0",
		"./upgrade.sh --token abc --dry-run":                                                     "./upgrade.sh --token … --dry-run",
		"./upgrade.sh --api-key=abc":                                                             "./upgrade.sh --api-key=…",
		"helm upgrade web --set db.password=hunter2,a=b":                                         "helm upgrade web --set db.password=…",
		"helm upgrade web --set=password=hunter2":                                                "helm upgrade web --set=…",
		"env AWS_SECRET_ACCESS_KEY=wJalrXUt make":                                                "env AWS_SECRET_ACCESS_KEY=… make",
		"mysql -p hunter2":                                            "mysql -p …",
		"curl -u me:hunter2 https://example.com/":                     "curl -u … https://example.com/",
		"curl https://me:hunter2@example.com/":                        "curl …",
		"login AKIAIOSFODNN7EXAMPLE":                                  "login …",
		"login 0123456789abcdef0123456789abcdef":                      "login …",
		"sh -c|curl -H 'Authorization: Bearer x' https://example.com": "sh -c …",
		"run --color\x1b[2J":                                          "run …",
	} {
		program, script, isScript := strings.Cut(command, "|")
		words := strings.Fields(program)
		if isScript {
			words = append(words, script)
		}
		if got := shownCommand(words); got != want {
			t.Errorf("%s\n is shown as %s\n want        %s", command, got, want)
		}
	}
}
