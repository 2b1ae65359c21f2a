//go:build !linux

package rundelay

import "time"

func first() {}

func sleep(d time.Duration) { time.Sleep(d) }

func processTime() time.Duration { return 0 }
