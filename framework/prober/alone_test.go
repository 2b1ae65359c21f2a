package prober

import (
	"context"
	"testing"
	"time"
)

func TestAPatienceThatDoesNotRunOutWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	const step = time.Second
	away := func(from, to int) func(int) bool { return func(i int) bool { return i < from || i >= to } }
	for name, c := range map[string]struct {
		api  func(second int) bool
		hold func(second int) bool
		want int // the second in which the patience of 40 s is over
	}{
		"nobody comes":                      {away(0, 0), nil, 40},
		"the API server is away for 65 s":   {away(10, 75), nil, 105},
		"it stays away":                     {away(10, 10_000), nil, 300},
		"somebody comes after 30 s":         {away(0, 0), func(i int) bool { return i == 30 }, 71},
		"somebody comes when it is back":    {away(10, 75), func(i int) bool { return i == 80 }, 121},
		"somebody is here for five minutes": {away(0, 0), func(i int) bool { return i < 300 }, 340},
	} {
		a := NewAlone(40 * time.Second)
		over := 0
		for i := 0; i < 1000 && over == 0; i++ {
			if c.hold != nil && c.hold(i) {
				a.Hold()
			} else if a.held {
				a.Release()
			}
			if a.count(step, c.api(i)) {
				over = i + 1
			}
		}
		if over != c.want {
			t.Errorf("%s: over after %d s, want %d", name, over, c.want)
		}
	}
}

func TestWithoutAnAPIServerThePatienceRunsOut(t *testing.T) {
	t.Parallel()
	a := NewAlone(100 * time.Millisecond)
	a.api = func(context.Context) bool { return false }
	began := time.Now()
	if !a.Wait(t.Context()) || time.Since(began) > 20*time.Second {
		t.Errorf("it waited for %s", time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if NewAlone(time.Minute).Wait(ctx) {
		t.Error("its patience is over although it was asked to end")
	}
}
