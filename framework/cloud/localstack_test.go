package cloud

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
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

func TestLocalStackQueueThatIsDeletedAndCreatedAgain(t *testing.T) {
	const name = "recreated"
	d := realStack(t, name)
	was, err := d.attributes(t.Context(), "All")
	if err != nil {
		t.Fatal(err)
	}
	create, err := d.DeleteQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Depth(t.Context()); err == nil {
		t.Error("the queue still exists")
	}
	if err := create(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := d.attributes(t.Context(), "All")
	if err != nil {
		t.Fatal(err)
	}
	for _, attribute := range settable() {
		if now[attribute] != was[attribute] {
			t.Errorf("%s is %q, was %q", attribute, now[attribute], was[attribute])
		}
	}
	if _, err := d.Put(t.Context(), Notice{Type: history.SpotInterruption, Instances: []string{"i-1"}}); err != nil {
		t.Fatal(err)
	}
	if bodies, err := d.Take(t.Context(), 10*time.Second); err != nil || len(bodies) != 1 {
		t.Errorf("a notice afterwards: %q, %v", bodies, err)
	}
}

// A run that was killed can leave a stack without its queue, or with another retention.
func TestLocalStackQueueIsPutRightByTheNextDeployment(t *testing.T) {
	const name = "left-wrong"
	d := realStack(t, name)
	if _, err := d.DeleteQueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.DeployStack(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := d.KeepMessages(t.Context(), history.ShortestRetention); err != nil {
		t.Fatal(err)
	}
	if err := d.DeployStack(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	found, err := d.attributes(t.Context(), "MessageRetentionPeriod")
	if err != nil || found["MessageRetentionPeriod"] != "300" {
		t.Errorf("retention %q, %v", found["MessageRetentionPeriod"], err)
	}
}

func TestLocalStackMessageThatIsReadComesAgain(t *testing.T) {
	d := realStack(t, "read")
	id, err := d.SendRaw(t.Context(), `{"id":"a-notice"}`)
	if err != nil {
		t.Fatal(err)
	}
	read, err := d.ReadOne(t.Context(), 5*time.Second)
	if err != nil || read == nil || *read != (Read{Message: id, Notice: "a-notice"}) {
		t.Fatalf("read %+v, %v", read, err)
	}
	if visible, invisible, err := d.Depth(t.Context()); err != nil || visible != 0 || invisible != 1 {
		t.Errorf("%d visible, %d in flight, %v", visible, invisible, err)
	}
	if read, err := d.ReadOne(t.Context(), time.Second); err != nil || read != nil {
		t.Errorf("it is not hidden: %+v, %v", read, err)
	}
}

func TestLocalStackMessagesExpire(t *testing.T) {
	d := realStack(t, "expiring")
	if _, err := d.KeepMessages(t.Context(), history.ShortestRetention); err != nil {
		t.Fatal(err)
	}
	if _, err := d.SendRaw(t.Context(), "stale"); err != nil {
		t.Fatal(err)
	}
	sent, left := time.Now(), 1
	for left > 0 && time.Since(sent) < history.ShortestRetention+10*time.Second {
		time.Sleep(time.Second)
		var err error
		if left, _, err = d.Depth(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if expired := time.Since(sent).Round(time.Second); left != 0 || expired < history.ShortestRetention-2*time.Second {
		t.Errorf("%d messages are left %s after the first was sent", left, expired)
	}
}

// A queue that is missing while an event is delivered does not get it later: what LocalStack does after
// PutEvents has answered must be over.
func TestLocalStackDeliveriesAreOverWhenTheyWereTried(t *testing.T) {
	d := realStack(t, "tried")
	deliveries, err := d.WatchDeliveries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := deliveries.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if err := deliveries.WaitTried(t.Context(), "never-sent"); err == nil {
		t.Error("the delivery of an event that nobody sent was tried")
	}
}
