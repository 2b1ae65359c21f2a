package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/prober/probereport"
	"github.com/spotdrill/spotdrill/reports"
)

// onTerminal returns what f writes to a terminal with that many columns.
func onTerminal(t *testing.T, columns uint16, f func(terminal *os.File)) string {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	defer screen.Close()
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	f(terminal)
	_ = terminal.Close()
	text, _ := io.ReadAll(screen) // ends in EIO: the terminal is closed
	return string(text)
}

func TestProgressIsOneLineThatIsRewritten(t *testing.T) {
	t.Setenv("TERM", "xterm")
	show := func(terminal *os.File) (stop func()) {
		p := probereport.NewProgress(prober.Plan{For: time.Minute}, history.NewClock())
		p.Add(history.Query{Outcome: history.Answered})
		return p.Show(terminal, reports.Rewriting(terminal))
	}
	const columns, wipe = 20, "\r\x1b[K"
	text := onTerminal(t, columns, func(terminal *os.File) {
		stop := show(terminal)
		time.Sleep(1500 * time.Millisecond)
		stop()
	})
	lines := strings.Split(text, wipe)
	if len(lines) < 3 || lines[0] != "" || lines[len(lines)-1] != "" || !strings.Contains(text, "of 1m0s") {
		t.Errorf("want lines that are wiped, the last one too: %q", text)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) >= columns || strings.Contains(line, "\n") {
			t.Errorf("%q does not stay on a line of %d columns", line, columns)
		}
	}

	t.Setenv("TERM", "dumb")
	if text := onTerminal(t, columns, func(terminal *os.File) { show(terminal)() }); text != "" {
		t.Errorf("a dumb terminal gets a line that is rewritten: %q", text)
	}
}
