//go:build !linux

package rundelay

import "time"

func first() {}

func processTime() time.Duration { return 0 }
