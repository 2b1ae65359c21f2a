//go:build !linux

package rundelay

import (
	"errors"
	"io"
	"os"
	"time"
)

type file struct{ *os.File }

func open(path string) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &file{f}, nil
}

func (f *file) read(buf []byte) (int, error) {
	n, err := f.ReadAt(buf, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func first(int) error { return errors.ErrUnsupported }

func firstOfProcess() {}

func processTime() time.Duration { return 0 }
