package run

import (
	"context"
	"errors"
	"testing"
)

// All are worked on at once; the error of one is returned and ends the others.
func TestInParallel(t *testing.T) {
	err := inParallel(t.Context(), []string{"waits", "fails"}, func(ctx context.Context, item string) error {
		if item == "waits" {
			<-ctx.Done()
			return nil
		}
		return errors.New(item)
	})
	if err == nil || err.Error() != "fails" {
		t.Errorf("error %v", err)
	}
}
