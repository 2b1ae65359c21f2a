// Package wrap adds to errors what was being done.
package wrap

import "fmt"

// Errorf puts before an error what was being done, as in "stop node x: EOF". It returns nil if err is nil.
func Errorf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
