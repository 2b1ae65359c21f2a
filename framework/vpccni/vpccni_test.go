package vpccni

import (
	"encoding/json"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// daemonSet is the one of a version's manifest.
func daemonSet(t *testing.T, version string) *appsv1.DaemonSet {
	t.Helper()
	text, err := Manifest(version, "drill", "image:1")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "${") {
		t.Errorf("a place is left open:\n%s", text)
	}
	docs := strings.Split(text, "\n---\n")
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict([]byte(docs[len(docs)-1]), &set); err != nil {
		t.Fatal(err)
	}
	return &set
}

// values are the configuration values in a DaemonSet.
func values(set *appsv1.DaemonSet) map[string]string {
	out := map[string]string{}
	for _, c := range append(set.Spec.Template.Spec.InitContainers, set.Spec.Template.Spec.Containers...) {
		for _, env := range c.Env {
			if env.ValueFrom == nil && env.Name != "ENABLE_IPV6" {
				out[c.Name+"/"+env.Name] = env.Value
			}
		}
	}
	return out
}

const (
	demux  = initContainer + "/" + DisableEarlyDemux
	podENI = container + "/" + PodENI
)

func TestOnlyTheNextVersionKnowsTheSecondValue(t *testing.T) {
	former, next := values(daemonSet(t, Former)), values(daemonSet(t, Next))
	if _, known := former[demux]; known || former[podENI] != "false" || len(former) != 1 {
		t.Errorf("%s applies %v", Former, former)
	}
	if next[demux] != "false" || next[podENI] != "false" || len(next) != 2 {
		t.Errorf("%s applies %v", Next, next)
	}
}

func TestAVersionThatDoesNotExist(t *testing.T) {
	if _, err := Manifest("v1.12.0", "drill", "image:1"); err == nil || !strings.Contains(err.Error(), "v1.12.0") {
		t.Error(err)
	}
}

func TestValuesThatAreSetByHand(t *testing.T) {
	live, err := json.Marshal(daemonSet(t, Former))
	if err != nil {
		t.Fatal(err)
	}
	patched, err := strategicpatch.StrategicMergePatch(live, Patch(), appsv1.DaemonSet{})
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.DaemonSet
	if err := json.Unmarshal(patched, &set); err != nil {
		t.Fatal(err)
	}
	if got := values(&set); got[demux] != "true" || got[podENI] != "true" {
		t.Errorf("got %v", got)
	}
	if containers := set.Spec.Template.Spec.Containers; len(containers) != 1 || len(containers[0].Env) != 3 {
		t.Errorf("something else has changed: %+v", containers)
	}
}

func TestRules(t *testing.T) {
	pods := []netip.Addr{netip.MustParseAddr("10.244.1.9"), netip.MustParseAddr("10.244.1.4")}
	for name, c := range map[string]struct {
		node               node
		pods               []netip.Addr
		forwarded, fromOwn bool
	}{
		"both values as the pods need them":       {node{podENI: true}, pods, false, false},
		"no interface of their own":               {node{}, pods, true, false},
		"early demux":                             {node{podENI: true, earlyDemux: true}, pods, false, true},
		"an upgrade that has overwritten both":    {node{earlyDemux: true}, pods, true, true},
		"no pod with security groups of its own":  {node{earlyDemux: true}, nil, false, false},
		"no such pod, and both values are right":  {node{podENI: true}, nil, false, false},
		"one pod, after an upgrade of both":       {node{earlyDemux: true}, pods[:1], true, true},
		"one pod, and both values as it needs it": {node{podENI: true}, pods[:1], false, false},
	} {
		t.Run(name, func(t *testing.T) {
			script := c.node.script(c.pods)
			if got := strings.Contains(script, "hook forward"); got != c.forwarded {
				t.Errorf("drops forwarded packets: %v, want %v\n%s", got, c.forwarded, script)
			}
			if got := strings.Contains(script, "hook output"); got != c.fromOwn {
				t.Errorf("drops connections from the pods' own node: %v, want %v\n%s", got, c.fromOwn, script)
			}
			if !strings.Contains(script, "delete table inet "+table) {
				t.Errorf("it leaves former rules:\n%s", script)
			}
			accepted(t, script)
		})
	}
}

// accepted has nft itself check a script, in a network namespace of its own.
func accepted(t *testing.T, script string) {
	t.Helper()
	if exec.Command("unshare", "--net", "true").Run() != nil {
		t.Log("skipped for nft: this test needs to be root for a network namespace of its own")
		return
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Log("skipped for nft: it is not installed")
		return
	}
	cmd := exec.Command("unshare", "--net", "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, said, script)
	}
}

func TestWhichPodsHaveAnInterfaceOfTheirOwn(t *testing.T) {
	pod := func(ip string, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Status: corev1.PodStatus{PodIP: ip}}
	}
	own := map[string]string{Annotation: "[]"}
	got := addresses([]*corev1.Pod{pod("10.244.1.4", own), pod("10.244.1.5", nil), pod("", own)})
	if len(got) != 1 || got[0].String() != "10.244.1.4" {
		t.Errorf("got %v", got)
	}
}
