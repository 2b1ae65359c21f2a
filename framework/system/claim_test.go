package system

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A second claim is refused as long as the first one holds, and names its process.
func TestClaim(t *testing.T) {
	t.Setenv("SPOTDRILL_CACHE", t.TempDir())
	first, err := claimSystem("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claimSystem("a"); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("a second claim: %v", err)
	}
	other, err := claimSystem("b")
	if err != nil {
		t.Errorf("another cluster: %v", err)
	}
	for _, c := range []*claim{first, other} {
		if err := c.release(); err != nil {
			t.Error(err)
		}
	}
	again, err := claimSystem("a")
	if err != nil {
		t.Fatalf("after the first was released: %v", err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}
