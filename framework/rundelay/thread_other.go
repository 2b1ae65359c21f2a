//go:build !linux

package rundelay

import (
	"errors"
	"time"
)

func first(int) error { return errors.ErrUnsupported }

func firstOfProcess() {}

func processTime() time.Duration { return 0 }
