// Package files reads and writes in folders that somebody else may have filled, such as the artifact of
// a CI job: nothing outside a folder is read or written through it, only regular files are read, up to
// a size, and a file is replaced as a whole.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNotRegular reports that a file is a symbolic link, a pipe, a device or a folder.
var ErrNotRegular = errors.New("no regular file")

// ErrTooLarge reports that a file has more than what is read of its kind.
var ErrTooLarge = errors.New("too large")

// Open opens a regular file below a folder. The path may have no symbolic link out of the folder, and
// the file may be none. A missing one is fs.ErrNotExist.
func Open(folder, path string) (*os.File, error) {
	f, err := open(folder, path)
	return f, named(err, filepath.Join(folder, path))
}

// named makes an error of the system one about the whole path.
func named(err error, path string) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "open", Path: path, Err: of.Err}
	}
	return err
}

func open(folder, path string) (*os.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s", ErrNotRegular, filepath.Join(folder, path))
	}
	// Between the two it may have become a pipe, which must not block.
	f, err := root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s", ErrNotRegular, filepath.Join(folder, path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read reads a regular file below a folder, as Open does, of at most so many bytes.
func Read(folder, path string, most int64) ([]byte, error) {
	f, err := Open(folder, path)
	if err != nil {
		return nil, err
	}
	text, err := ReadAll(f, most)
	if errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%s: %w", filepath.Join(folder, path), err)
	}
	return text, err
}

// ReadAll reads at most so many bytes of a file, and closes it. Of more, the error is ErrTooLarge.
func ReadAll(f io.ReadCloser, most int64) ([]byte, error) {
	text, err := io.ReadAll(Limit(f, most))
	return text, errors.Join(err, f.Close())
}

// ReadFile is Read for a path that the user has given, who may give a symbolic link.
func ReadFile(path string, most int64) ([]byte, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, named(err, path)
	}
	return Read(filepath.Dir(target), filepath.Base(target), most)
}

// Limit is a reader that fails with ErrTooLarge after so many bytes.
func Limit(from io.Reader, most int64) io.Reader { return &limited{from: from, left: most, most: most} }

type limited struct {
	from       io.Reader
	left, most int64
}

func (l *limited) Read(into []byte) (int, error) {
	if l.left < 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, l.most)
	}
	n, err := l.from.Read(into[:min(int64(len(into)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return n - 1, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, l.most)
	}
	return n, err
}

// Replace writes a file below a folder. It is there as a whole or as it was before: it is written to
// another one, which then gets its name. What has that name is replaced, not followed.
func Replace(folder, path string, write func(io.Writer) error) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	next := path + ".next"
	if err := root.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = root.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, root.Remove(next))
	}
	return nil
}

// Copy copies the regular files below a folder to one that exists. Anything else there, and a file that
// exists already (fs.ErrExist), is an error.
func Copy(ctx context.Context, to, from string) error {
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	source, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return fs.WalkDir(source.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir():
			return target.MkdirAll(path, 0o755)
		case !d.Type().IsRegular():
			return fmt.Errorf("%w: %s", ErrNotRegular, filepath.Join(from, path))
		}
		if err := copyFile(target, from, path); err != nil {
			return fmt.Errorf("copy %s: %w", path, err)
		}
		return nil
	})
}

func copyFile(target *os.Root, from, path string) error {
	in, err := Open(from, path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := target.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
