package cloud

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// realStack is a stack that is deployed in a real LocalStack.
func realStack(t *testing.T, cluster string) *AWS {
	t.Helper()
	endpoint := os.Getenv("SPOTDRILL_LOCALSTACK")
	if endpoint == "" {
		t.Skip("needs a LocalStack: set SPOTDRILL_LOCALSTACK to its endpoint, for instance http://127.0.0.1:4566")
	}
	a := Connect(endpoint, testRegion)
	if err := a.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.DeployStack(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Drills may be using this LocalStack.
		if err := a.DeleteStack(context.WithoutCancel(t.Context()), cluster); err != nil {
			t.Errorf("remove the stack: %v", err)
		}
	})
	return a
}

func TestLocalStackStackIsReusedAndInstancesAreFound(t *testing.T) {
	d := realStack(t, "reused")
	began := time.Now()
	if err := d.DeployStack(t.Context(), "reused"); err != nil {
		t.Fatal(err)
	}
	t.Logf("second deployment: %s", time.Since(began))
	cluster := fmt.Sprintf("drill-%d", time.Now().UnixNano())
	ids, err := d.RunInstances(t.Context(), cluster, []string{"spot-1", "spot-2"})
	if err != nil {
		t.Fatal(err)
	}
	found, err := d.Instances(t.Context(), cluster)
	if err != nil || len(found) != 2 || found["spot-1"] != ids["spot-1"] || found["spot-2"] != ids["spot-2"] {
		t.Fatalf("started %v, found %v, %v", ids, found, err)
	}
	if err := d.Terminate(t.Context(), []string{ids["spot-1"], ids["spot-2"]}); err != nil {
		t.Fatal(err)
	}
	if found, err = d.Instances(t.Context(), cluster); err != nil || len(found) != 0 {
		t.Errorf("after termination: %v, %v", found, err)
	}
}

func TestLocalStackFailedStackIsCreatedAgain(t *testing.T) {
	cluster := fmt.Sprintf("broken-%d", time.Now().Unix())
	d := realStack(t, "whole")
	broken := *d
	if err := broken.createStack(t.Context(), stackName(cluster), "Resources:\n  Queue:\n    Type: AWS::SQS::QueuePolicy\n    Properties: {Queues: [nowhere], PolicyDocument: {}}\n", nil); err == nil {
		t.Fatal("a broken template was accepted")
	} else {
		t.Log(err)
	}
	if err := broken.DeployStack(t.Context(), cluster); err != nil {
		t.Error(err)
	}
	if err := broken.DeleteStack(t.Context(), cluster); err != nil {
		t.Error(err)
	}
}
