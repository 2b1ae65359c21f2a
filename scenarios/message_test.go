package scenarios

import (
	"strings"
	"testing"
)

func TestTextOfAMessage(t *testing.T) {
	nodes := map[string]string{"victim": "i-0abc"}
	for body, want := range map[string]string{
		`plain`:                                `plain`,
		`{"instance-id":"${INSTANCE:victim}"}`: `{"instance-id":"i-0abc"}`,
		`<${REPEAT:3:ab}>`:                     `<ababab>`,
		`${REPEAT:2:[}${REPEAT:2:]}`:           `[[]]`,
		`${REPEAT:2:{"a":}1`:                   `{"a":{"a":1`,
		`${REPEAT:0:x}y`:                       `y`,
		`c${NUMBER}${REPEAT:2:${NUMBER}}`:      `c000000000007` + `000000000007` + `000000000007`,
		`${REPEAT:x:y} ${OTHER} $`:             `${REPEAT:x:y} ${OTHER} $`,
	} {
		if got, err := (Message{Body: body}).Text(nodes, 7); err != nil || got != want {
			t.Errorf("%s becomes %q (%v), want %q", body, got, err, want)
		}
	}
}

func TestInvalidTextOfAMessage(t *testing.T) {
	for body, want := range map[string]string{
		`${INSTANCE:ghost}`:                    "${INSTANCE:ghost} names no node",
		`${REPEAT:99999999999999999999:x}`:     "SQS refuses it",
		`${REPEAT:262144:x}${REPEAT:262144:x}`: "524288 bytes are more than 262144",
		`${REPEAT:262144:0123456789}`:          "SQS refuses it",
	} {
		if got, err := (Message{Body: body}).Text(nil, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s becomes %d bytes (%v), want an error with %q", body, len(got), err, want)
		}
	}
	largest := "${REPEAT:262144:x}"
	if got, err := (Message{Body: largest}).Text(nil, 1); err != nil || len(got) != 262144 {
		t.Errorf("%d bytes (%v)", len(got), err)
	}
}
