package cloud

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestRetentionIsThatOfTheStack(t *testing.T) {
	if want := fmt.Sprintf("MessageRetentionPeriod: %d", int(retention.Seconds())); !strings.Contains(stackTemplate, want) {
		t.Errorf("stack.yaml does not have %q", want)
	}
}

func TestTheQueueIsOnlyChangedByWhoeverDeployedIt(t *testing.T) {
	a := Connect("http://127.0.0.1:1", testRegion)
	if _, err := a.DeleteQueue(t.Context()); err == nil {
		t.Error("a queue was deleted")
	}
	if _, err := a.KeepMessages(t.Context(), history.ShortestRetention); err == nil {
		t.Error("a retention was set")
	}
	if _, err := a.ReadOne(t.Context(), 0); err == nil {
		t.Error("a message was read")
	}
}
