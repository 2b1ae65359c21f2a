//go:build !linux

package rundelay

import "time"

func first() {}

func threadTime() time.Duration { return 0 }
