package proxy

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/spotdrill/spotdrill/framework/history"
)

// permit sets what is permitted as the system does: by the proxy's control.
func (q *faultyQueue) permit(t *testing.T, method, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, q.admin+"/permitted", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func TestAPolicyRefusesWhatItDoesNotAllow(t *testing.T) {
	q := newFaultyQueue(t, "a")
	if code := q.permit(t, http.MethodPut, `["DeleteMessage"]`); code != http.StatusOK {
		t.Fatalf("set: %d", code)
	}
	_, err := q.receive(t.Context(), 10, 20)
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "AccessDenied" {
		t.Errorf("the SDK reports %v", err)
	}
	if q.reached("ReceiveMessage") {
		t.Error("the call reached the queue")
	}
	call := awaitEvent(t, q.rec, func(e history.Event) bool { return e.Kind == history.SQSCall })
	if call.Status != http.StatusForbidden || call.Note != "the IAM policy does not allow sqs:ReceiveMessage" || call.ErrorCode() != history.AccessDenied {
		t.Errorf("recorded %+v", call)
	}
	q.permit(t, http.MethodDelete, "")
	if messages, err := q.receive(t.Context(), 10, 0); err != nil || ids(messages) != "m-0" {
		t.Errorf("afterwards: %q, %v", ids(messages), err)
	}
}

func TestWhatAPolicyAllows(t *testing.T) {
	for name, c := range map[string]struct {
		permitted []string
		action    string
		want      bool
	}{
		"the call":                        {[]string{"ReceiveMessage", "DeleteMessage"}, "DeleteMessage", true},
		"a batch, by its single call":     {[]string{"DeleteMessage"}, "DeleteMessageBatch", true},
		"a batch, by a name of its own":   {[]string{"DeleteMessageBatch"}, "DeleteMessageBatch", false},
		"another call":                    {[]string{"ReceiveMessage"}, "DeleteMessage", false},
		"nothing, by a policy of nothing": {nil, "ReceiveMessage", false},
	} {
		p := &Proxy{}
		if !p.allows(c.action) {
			t.Errorf("%s: refused without a policy", name)
		}
		if err := p.permit(c.permitted); err != nil {
			t.Fatal(err)
		}
		if p.allows(c.action) != c.want {
			t.Errorf("%s: %t", name, !c.want)
		}
	}
}

func TestPermittedActionsAreAList(t *testing.T) {
	q := newFaultyQueue(t, "a")
	if code := q.permit(t, http.MethodPut, `{"actions": []}`); code != http.StatusBadRequest {
		t.Errorf("a mapping: %d", code)
	}
	if messages, err := q.receive(t.Context(), 10, 0); err != nil || ids(messages) != "m-0" {
		t.Errorf("it was taken all the same: %q, %v", ids(messages), err)
	}
}
