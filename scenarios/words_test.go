package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// A kind of step or of wait that has no words would be told as nothing.
func TestEveryStepHasWords(t *testing.T) {
	all, err := Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for i, step := range s.Steps {
			if text := step.String(); text == "" || strings.Contains(text, "  ") || strings.Contains(text, "until ,") || strings.HasSuffix(text, " ") {
				t.Errorf("%s: step %d is told as %q", s.Name, i+1, text)
			}
		}
	}
}

func TestStepsInWords(t *testing.T) {
	second := strict.Duration(time.Second)
	for want, step := range map[string]Step{
		"notice n: state-change (stopping) for a, b":                                                       {Notice: &Notice{Name: "n", Type: "state-change", State: "stopping", Nodes: []string{"a", "b"}}},
		"notice n: spot-interruption for instance i-1, which is not in the cluster":                        {Notice: &Notice{Name: "n", Type: "spot-interruption", Instance: "i-1"}},
		"notice n: spot-interruption for an instance which is not in the cluster, its id almost that of a": {Notice: &Notice{Name: "n", Type: "spot-interruption", InstanceLike: "a"}},
		"message m straight into the queue, 10 times":                                                      {Message: &Message{Name: "m", Times: 10}},
		"wait until DNS has answered every query for 1s, at most 1s":                                       {Await: &Await{Answering: second, Timeout: second}},
		"wait until a pod of a is told to end, at most 1s":                                                 {Await: &Await{Evicting: "a", Timeout: second}},
		"the instance of a is taken at the deadline of n":                                                  {Reclaim: &Reclaim{Node: "a", At: "n"}},
		"fault f: error for 1s with status 500, 3 calls of ReceiveMessage":                                 {Fault: &Fault{Name: "f", Type: "error", For: second, Status: 500, Count: 3, Actions: []string{"ReceiveMessage"}}},
		"fault f: duplicate after 1s to another replica, 1 calls":                                          {Fault: &Fault{Name: "f", Type: "duplicate", After: second, Count: 1, ToAnother: true}},
		"the instance of a is taken without a notice":                                                      {Reclaim: &Reclaim{Node: "a"}},
		"fault f: delay by 1s":                                                 {Fault: &Fault{Name: "f", Type: "delay", By: second}},
		"budget of app: minAvailable 4, 1s after n":                            {Budget: &BudgetChange{Pods: "app", MinAvailable: 4, At: "n", After: second}},
		"disturbance d: the handler is cut off from the Kubernetes API for 1s": {Disturb: &Disturb{Name: "d", Handler: history.CutOffHandler, For: second}},
	} {
		if got := step.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
