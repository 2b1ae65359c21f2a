package run

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestAutoScaling(t *testing.T) {
	s := scaler{of: coredns.AutoScaling{Min: 3, Max: 10}, replicas: 3}
	var got []int
	for _, c := range []struct {
		at    time.Duration
		cores int
	}{
		{10 * time.Second, 20},
		{20 * time.Second, 2580}, // ten, at once
		{30 * time.Second, 20},   // the first step down
		{40 * time.Second, 20},
		{209 * time.Second, 20},
		{210 * time.Second, 20},   // three minutes later
		{220 * time.Second, 1600}, // up again, at once
		{230 * time.Second, 20},
		{390 * time.Second, 20},
	} {
		if s.next(5, c.cores, c.at) {
			got = append(got, s.replicas)
		}
	}
	if want := []int{10, 7, 5, 7, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Without auto scaling, nothing goes on beside the steps.
func TestNoAutoScaling(t *testing.T) {
	failure := errors.New("a step fails")
	r := &runner{Drill: Drill{Scenario: scenarios.Scenario{}}}
	if err := r.besideAutoScaling(t.Context(), func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
}
