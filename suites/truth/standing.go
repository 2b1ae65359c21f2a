package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// standing is a DNS server in a process of its own, that stands on one processor.
type standing struct {
	at    netip.AddrPort
	cmd   *exec.Cmd
	input io.WriteCloser
}

// startStand starts a server on a processor, in a room if it is not nil.
func startStand(ctx context.Context, in *room, processor int) (*standing, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := []string{"taskset", "--cpu-list", strconv.Itoa(processor), self, "stand"}
	if in != nil {
		args = append(append([]string{"ip", "netns", "exec", in.name}, args...), "-ip", roomInside)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	input, errIn := cmd.StdinPipe()
	output, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s := &standing{cmd: cmd, input: input}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err == nil {
		s.at, err = netip.ParseAddrPort(strings.TrimSpace(line))
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("read a server's address: %w", err)
	}
	return s, nil
}

func (s *standing) pid() int { return s.cmd.Process.Pid }

// end ends the server: it does when its input ends.
func (s *standing) end() {
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.input.Close()
	_ = s.cmd.Wait()
}

// fail has the server fail in a way between two times.
func (s *standing) fail(how kind, from, to time.Duration) error {
	_, err := fmt.Fprintf(s.input, "%s %d %d\n", how, from.Nanoseconds(), to.Nanoseconds())
	return err
}

// takeProcessor withholds the server's processor by a real-time process.
func takeProcessor(ctx context.Context, _ *standing, at, length time.Duration) (from, to time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, fmt.Errorf("find this program: %w", err)
	}
	out, _, err := command(ctx, self, "spin", "-processor", strconv.Itoa(stalling), "-at", strconv.FormatInt(at.Nanoseconds(), 10), "-for", length.String())
	if err != nil {
		if strings.Contains(err.Error(), syscall.EPERM.Error()) {
			return 0, 0, fmt.Errorf("%w: %w", errUnavailable, err)
		}
		return 0, 0, err
	}
	_, err = fmt.Sscan(out, &from, &to)
	return from, to, err
}

// stop stops the server by a signal.
func stop(ctx context.Context, s *standing, at, length time.Duration) (from, to time.Duration, err error) {
	sleep(ctx, at-monotonic())
	from = monotonic()
	err = s.cmd.Process.Signal(syscall.SIGSTOP)
	sleep(ctx, length)
	return from, monotonic(), errors.Join(err, s.cmd.Process.Signal(syscall.SIGCONT))
}

// freeze freezes a control group that holds the server.
func freeze(ctx context.Context, s *standing, at, length time.Duration) (from, to time.Duration, err error) {
	dir, unified, err := makeGroup("freezer")
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	file, frozen, thawed := "cgroup.freeze", "1", "0"
	if !unified {
		file, frozen, thawed = "freezer.state", "FROZEN", "THAWED"
	}
	defer func() {
		// A group is removed once it is empty.
		root := filepath.Join(filepath.Dir(dir), "cgroup.procs")
		_ = os.WriteFile(root, []byte(strconv.Itoa(s.pid())), 0)
		_ = os.Remove(dir)
	}()
	set := func(file, value string) error { return os.WriteFile(filepath.Join(dir, file), []byte(value), 0) }
	if err := set("cgroup.procs", strconv.Itoa(s.pid())); err != nil {
		return 0, 0, fmt.Errorf("put the server into a control group: %w", err)
	}
	sleep(ctx, at-monotonic())
	if ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	from = monotonic()
	err = set(file, frozen)
	sleep(ctx, length)
	to = monotonic()
	// A group that is still about to freeze may ignore that it is thawed.
	for range 100 {
		err = errors.Join(err, set(file, thawed))
		state, read := os.ReadFile(filepath.Join(dir, file))
		if read != nil || strings.TrimSpace(string(state)) == thawed {
			return from, to, errors.Join(err, read)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return from, to, errors.Join(err, fmt.Errorf("the control group %s does not thaw", dir))
}

// overload has each answer take more processor time than there is.
func overload(_ context.Context, s *standing, at, length time.Duration) (from, to time.Duration, err error) {
	return at, at + length, s.fail(burns, at, at+length)
}

// pinAll has every thread of this process, and those that they start, run on one processor.
func pinAll(processor int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list the threads of this process: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := pin(id, processor); err != nil {
			return err
		}
	}
	return nil
}

// room is a network namespace of its own, so that the kernel's counts of it are those of one
// server: a pod has one, too. A pair of virtual devices connects it with this machine and
// with nothing else; its addresses are those for benchmarks (RFC 2544).
type room struct{ name string }

const (
	roomOutside = "198.18.0.1"
	roomInside  = "198.18.0.2"
)

func newRoom(ctx context.Context) (*room, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	for _, a := range addresses {
		if strings.HasPrefix(a.String(), roomOutside+"/") {
			return nil, fmt.Errorf("%w: this machine has %s already: another run of this check is under way, or was killed and left its network namespace (ip netns)", errUnavailable, roomOutside)
		}
	}
	r := &room{name: fmt.Sprintf("spotdrill-%d", os.Getpid())}
	device := "v" + r.name[len("spotdrill"):]
	for i, args := range []string{
		"netns add " + r.name,
		"link add " + device + " type veth peer name eth0 netns " + r.name,
		"address add " + roomOutside + "/30 dev " + device,
		"link set " + device + " up",
		"-n " + r.name + " address add " + roomInside + "/30 dev eth0",
		"-n " + r.name + " link set eth0 up",
	} {
		if _, _, err := command(ctx, append([]string{"ip"}, strings.Fields(args)...)...); err != nil {
			if i > 0 {
				r.end()
			}
			return nil, fmt.Errorf("%w: make a network namespace: %w", errUnavailable, err)
		}
	}
	return r, nil
}

// end removes the namespace, and its devices with it.
func (r *room) end() {
	_, _, _ = command(context.Background(), "ip", "netns", "delete", r.name)
}
