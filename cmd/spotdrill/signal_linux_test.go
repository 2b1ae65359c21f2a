package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/reports"
)

// asProgram makes the test's own program spotdrill.
const asProgram = "SPOTDRILL_TEST_PROGRAM"

// asDrill makes it a drill that writes this file when it ends.
const asDrill = "SPOTDRILL_TEST_DRILL"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(execute())
	}
	if putBack := os.Getenv(asDrill); putBack != "" {
		os.Exit(drill(putBack))
	}
	os.Exit(m.Run())
}

// program starts spotdrill as a process of its own.
func program(t *testing.T, stdin io.Reader, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env, cmd.Stdin, cmd.Stderr = append(os.Environ(), asProgram+"=1"), stdin, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &stderr
}

// Each of them would be at work for minutes.
func TestASignalEndsWhatOnlyReads(t *testing.T) {
	withoutNohup(t)
	runs, many, record := aLongRun(t), manyReports(t), anEndlessRecord(t)
	for name, c := range map[string]struct {
		signal syscall.Signal
		reads  string // the folder or file that it is reading when the signal comes
		args   func(out string) []string
	}{
		"judge":         {syscall.SIGINT, runs, func(string) []string { return []string{"judge", runs} }},
		"judge, HUP":    {syscall.SIGHUP, runs, func(string) []string { return []string{"judge", runs} }},
		"judge, TERM":   {syscall.SIGTERM, runs, func(string) []string { return []string{"judge", "--json", runs} }},
		"report html":   {syscall.SIGINT, runs, func(string) []string { return []string{"report", "html", runs} }},
		"report verify": {syscall.SIGTERM, runs, func(string) []string { return []string{"report", "verify", filepath.Join(runs, reports.YAMLFile)} }},
		"report merge":  {syscall.SIGINT, runs, func(out string) []string { return []string{"report", "merge", "--out", out, runs, runs} }},
		"compare":       {syscall.SIGTERM, many, func(string) []string { return []string{"compare", many} }},
		"compare, nights": {syscall.SIGINT, many, func(string) []string {
			return []string{"compare", savedReport, "--against", many}
		}},
		"run --resume":  {syscall.SIGTERM, runs, func(string) []string { return []string{"run", "--dry-run", "--resume", runs} }},
		"probe convert": {syscall.SIGINT, record, func(out string) []string { return []string{"probe", "convert", record, filepath.Join(out, "q.csv")} }},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			cmd, stderr := program(t, nil, c.args(out)...)
			untilReading(t, cmd, c.reads)
			endsBy(t, cmd, stderr, c.signal)
			if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
				t.Errorf("it left %v (%v)", left, err)
			}
			for _, folder := range []string{runs, many} {
				if names := filesOf(t, folder); slices.ContainsFunc(names, func(f string) bool { return strings.HasSuffix(f, ".next") || f == reports.HTMLFile }) {
					t.Errorf("it left %v", names)
				}
			}
		})
	}
}

// A manifest that never ends holds up nobody.
func TestASignalEndsTheReadingOfStandardInput(t *testing.T) {
	from, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	cmd, stderr := program(t, from, "addon", "diff", "--manifest", "-")
	// More than a pipe holds: it is reading once this is written.
	if _, err := into.WriteString(strings.Repeat("# the next version\n", 1<<14)); err != nil {
		t.Fatal(err)
	}
	endsBy(t, cmd, stderr, syscall.SIGTERM)
}

// What a command changed must be put back, also if its terminal is closed or nobody reads what it prints:
// it is not killed, and what it prints while it ends does not kill it either.
func TestAClosedTerminalOrPipeEndsTheProgramInOrder(t *testing.T) {
	withoutNohup(t)
	for name, how := range map[string]func(*testing.T, *exec.Cmd, io.Closer){
		"the terminal is closed": func(t *testing.T, cmd *exec.Cmd, _ io.Closer) {
			for range 3 { // of the kernel, of the shell, and once more
				if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond)
			}
		},
		"nobody reads it": func(t *testing.T, _ *exec.Cmd, reader io.Closer) {
			if err := reader.Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, reader, putBack := aDrill(t)
			how(t, cmd, reader)
			kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			defer kill.Stop()
			err := cmd.Wait()
			if _, missing := os.Stat(putBack); missing != nil || cmd.ProcessState.ExitCode() != exitUnknown {
				t.Errorf("nothing was put back: %v, %v", missing, err)
			}
		})
	}
}

// withoutNohup lets processes that a test starts begin as without nohup, even if the tests run with it: they
// inherit an ignored signal, but not one that is handled.
func withoutNohup(t *testing.T) {
	t.Helper()
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(handled) })
}

// nohup is for this.
func TestAClosedTerminalDoesNotEndWhatNohupStarted(t *testing.T) {
	signal.Ignore(syscall.SIGHUP) // which processes inherit
	cmd, _, putBack := aDrill(t)
	signal.Reset(syscall.SIGHUP)
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(putBack); err == nil {
		t.Error("it ended")
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if _, err := os.Stat(putBack); err != nil {
		t.Error(err)
	}
}

// aDrill is a process that prints, and puts back when it ends. It has begun.
func aDrill(t *testing.T) (cmd *exec.Cmd, reader io.Closer, putBack string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	putBack = filepath.Join(t.TempDir(), "put-back")
	cmd = exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asDrill+"="+putBack), into, into
	if err := errors.Join(cmd.Start(), into.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd, from, putBack
}

// drill is what that process does.
func drill(putBack string) int {
	ctx, stop := untilInterrupted()
	defer stop()
	for ctx.Err() == nil {
		printf(os.Stdout, "goes on\n")
		time.Sleep(20 * time.Millisecond)
	}
	for range 20 { // it prints while it puts back
		printf(os.Stdout, "puts back\n")
		printf(os.Stderr, "puts back\n")
		time.Sleep(20 * time.Millisecond)
	}
	if err := os.WriteFile(putBack, nil, 0o600); err != nil {
		return exitHarness
	}
	return exitUnknown
}

// head reads some lines.
func TestAListThatIsNotReadToItsEnd(t *testing.T) {
	from, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, "list")
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram+"=1"), into, &stderr
	if err := errors.Join(from.Close(), cmd.Start(), into.Close()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitUnknown || !strings.Contains(stderr.String(), "nobody reads its output any more") {
		t.Errorf("%v: %s", err, &stderr)
	}
}

// The clean-up of a command that a signal ended is ended by a second one: here, of a program that ignores
// the first.
func TestASecondSignalAlwaysEndsTheProgram(t *testing.T) {
	from, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	cmd, _ := program(t, from, "waits") // its node outlives a Ctrl-C that is meant for the drill
	pid := fmt.Sprintf("/proc/%d/task", cmd.Process.Pid)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if tasks, _ := os.ReadDir(pid); len(tasks) > 3 {
			break
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for range 2 {
		time.Sleep(time.Second)
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("ended by itself: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("still running after the second signal")
		_ = cmd.Process.Kill()
	}
}

// endsBy sends the signal and requires that the process ends soon, of its own will.
func endsBy(t *testing.T, cmd *exec.Cmd, stderr *bytes.Buffer, with syscall.Signal) {
	t.Helper()
	sent := time.Now()
	if err := cmd.Process.Signal(with); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitUnknown || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("%v after %v, and printed %s", err, time.Since(sent), stderr)
	}
}

// untilReading waits until the process has a file open that is, or is below, the path.
func untilReading(t *testing.T, cmd *exec.Cmd, path string) {
	t.Helper()
	fds := fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		open, _ := os.ReadDir(fds)
		for _, fd := range open {
			if file, err := os.Readlink(filepath.Join(fds, fd.Name())); err == nil && strings.HasPrefix(file, path) && filepath.Ext(file) != "" {
				return
			}
		}
	}
	t.Fatal("it reads nothing")
}

func filesOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// aLongRun is the folder of a run with a drill of which there are thousands of copies.
func aLongRun(t *testing.T) string {
	t.Helper()
	const copies = 3000
	run, drill := t.TempDir(), filepath.Join(savedRun, savedDrill, "attempt-1")
	report := fmt.Sprintf("apiVersion: %s\nkind: %s\nrun: long\nhandler: {name: builtin, version: 1.0.0}\nset: fast\nsummary: {total: %d}\nresults:\n", reports.APIVersion, reports.Kind, copies)
	for i := range copies {
		attempt := filepath.Join(fmt.Sprintf("drill-%d", i), "attempt-1")
		if err := os.MkdirAll(filepath.Join(run, attempt), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range filesOf(t, drill) {
			if err := os.Link(filepath.Join(drill, name), filepath.Join(run, attempt, name)); err != nil {
				t.Skipf("files of the repository cannot be linked: %v", err)
			}
		}
		report += fmt.Sprintf("- {scenario: drill-%d, profile: DNS, outcome: pass, history: %s}\n", i, attempt)
	}
	if err := os.WriteFile(filepath.Join(run, reports.YAMLFile), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	return run
}

// manyReports is a folder of many nights.
func manyReports(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for i := range 2000 {
		night := filepath.Join(folder, fmt.Sprint(i))
		if err := errors.Join(os.Mkdir(night, 0o755), os.Link("../../reports/published/builtin/report.yaml", filepath.Join(night, reports.YAMLFile))); err != nil {
			t.Skipf("files of the repository cannot be linked: %v", err)
		}
	}
	return folder
}

// anEndlessRecord is a pipe with queries, as long as somebody reads them.
func anEndlessRecord(t *testing.T) string {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "queries.bin")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		into, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			return
		}
		defer into.Close()
		record := history.NewQueryWriter(into, struct{}{})
		for err == nil {
			err = record.Write(history.Query{Target: "server", Mode: history.Fresh, Outcome: history.Answered})
		}
	}()
	return pipe
}
