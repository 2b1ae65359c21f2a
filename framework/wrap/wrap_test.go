package wrap

import (
	"errors"
	"io"
	"testing"
)

func TestOnlyAnErrorIsWrapped(t *testing.T) {
	t.Parallel()
	if err := Errorf(nil, "stop node %s", "x"); err != nil {
		t.Errorf("nil became %v", err)
	}
	err := Errorf(io.EOF, "stop node %s", "x")
	if !errors.Is(err, io.EOF) || err.Error() != "stop node x: EOF" {
		t.Errorf("got %v, want EOF with what was being done", err)
	}
}
