//go:build !linux

package rundelay

import "time"

func first() {}

func sleep(d time.Duration) { time.Sleep(d) }

func threadTime() time.Duration { return 0 }
