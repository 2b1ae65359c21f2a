package recommend

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// started is a CoreDNS that runs with a Corefile.
type started struct {
	refused string // what it printed when it ended by itself; empty if it runs
	printed *printed
	command *exec.Cmd
	ended   chan struct{} // closed once it has
}

// printed is what a process prints.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(text)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// awaits polls until a condition holds, 20 s at most.
func awaits(holds func() bool) bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// start starts CoreDNS with these files in a folder, and waits until it runs or has ended.
func start(t *testing.T, binary string, files map[string]string, env ...string) *started {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		at := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &started{printed: &printed{}, ended: make(chan struct{})}
	s.command = exec.Command(binary, "-conf", "Corefile", "-dns.port", freePort(t))
	s.command.Dir, s.command.Env, s.command.Stdout, s.command.Stderr = folder, append(os.Environ(), env...), s.printed, s.printed
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.command.Wait() // its state has the result
	}()
	if !awaits(func() bool { return s.over() || strings.Contains(s.printed.String(), "CoreDNS-") }) {
		t.Fatalf("CoreDNS neither runs nor ends: %s", s.printed)
	}
	if s.over() {
		s.refused = s.printed.String()
		return s
	}
	t.Cleanup(func() {
		_ = s.command.Process.Kill() // it may have ended
		<-s.ended
	})
	return s
}

func (s *started) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// goesInto requires that CoreDNS goes into that lameduck at SIGTERM. It handles the signal from a goroutine
// on (trapSignalsPosix of coredns/caddy), which may run after it has printed its version: one that the
// signal has killed before is started again, and gets more time.
func (s *started) goesInto(t *testing.T, lameduck time.Duration, again func() *started) {
	t.Helper()
	want := fmt.Sprintf("Going into lameduck mode for %s\n", lameduck)
	for patience := 20 * time.Millisecond; patience < 3*time.Second; patience *= 2 {
		if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		has := func() bool { return strings.Contains(s.printed.String(), want) }
		awaits(func() bool { return has() || s.over() })
		if has() {
			return
		}
		if !s.over() || !s.command.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			break
		}
		s = again()
		time.Sleep(patience)
	}
	t.Errorf("CoreDNS printed %s, want %s", s.printed, want)
}

// answers reports whether GET of a path at a port is answered with 200.
func answers(port int, path string) bool {
	return awaits(func() bool {
		got, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			return false
		}
		_ = got.Body.Close()
		return got.StatusCode == http.StatusOK
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

var (
	anyPort   = regexp.MustCompile(`:(53|8080|8082|8181|8182|8190)\b`)
	usualPort = regexp.MustCompile(`(?m)^(\s*)(health|ready)((?:\s*\{.*)?)$`)
)

// onFreePorts is a Corefile whose ports are free on this machine; equal ones stay equal.
func onFreePorts(t *testing.T, text string) string {
	t.Helper()
	free := map[string]string{}
	usual := map[string]string{"health": ":8080", "ready": ":8181"}
	text = usualPort.ReplaceAllStringFunc(text, func(line string) string {
		m := usualPort.FindStringSubmatch(line)
		return m[1] + m[2] + " " + usual[m[2]] + m[3]
	})
	return anyPort.ReplaceAllStringFunc(text, func(port string) string {
		if free[port] == "" {
			free[port] = ":" + freePort(t)
		}
		return free[port]
	})
}

// realCoreDNS is the CoreDNS of kind/, which make coredns builds; without it the test is skipped.
func realCoreDNS(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("SPOTDRILL_COREDNS")
	if binary == "" {
		t.Skip("it needs a CoreDNS; make test builds it, and names it in SPOTDRILL_COREDNS")
	}
	if _, err := os.Stat(binary); err != nil { // so that the result is not taken from a cache if it changes
		t.Fatal(err)
	}
	return binary
}

// probeOf is the port that the readiness probe asks with the printed patch; 0 if that changes no port.
func probeOf(t *testing.T, a Advice) int {
	t.Helper()
	before, d := a.dns.readiness(), a.dns
	d.Workload = patched(t, a)
	after := d.readiness()
	if after == nil || after.HTTPGet == nil || before != nil && before.HTTPGet != nil && before.HTTPGet.Port == after.HTTPGet.Port {
		return 0
	}
	return after.HTTPGet.Port.IntValue()
}

// CoreDNS itself starts with what is read here as right, refuses what is read as wrong, and goes into
// the lameduck that was read. Each Corefile that is printed starts, and answers where the printed probe
// asks, also before the Corefile is replaced.
func TestWhatIsPrintedRunsInCoreDNS(t *testing.T) {
	binary := realCoreDNS(t)
	corefiles, err := filepath.Glob("testdata/corefiles/Corefile.*")
	if err != nil || len(corefiles) < 20 {
		t.Fatalf("%d Corefiles, %v", len(corefiles), err)
	}
	for _, path := range corefiles {
		t.Run(strings.TrimPrefix(filepath.Ext(path), "."), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			corefile := onFreePorts(t, string(text))
			for name, change := range map[string]func(*DNS){
				"with its probe": func(*DNS) {},
				"without one":    func(d *DNS) { d.container().ReadinessProbe = nil },
				"of /health":     func(d *DNS) { d.readiness().HTTPGet.Path = "/health" },
				"of another kind": func(d *DNS) {
					d.readiness().ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(53)}}
				},
			} {
				d := sound(corefileOf(corefile), change, func(d *DNS) {
					d.CorefilePath, d.Mounts = "/etc/coredns/Corefile", []Mount{{Path: "/etc/coredns"}}
					d.Env = append(d.Env, corev1.EnvVar{Name: "LAMEDUCK", Value: "2s"})
				})
				a, err := New(d)
				if err != nil {
					t.Fatal(err)
				}
				files := map[string]string{"Corefile": corefile}
				if name == "with its probe" {
					begin := func() *started { return start(t, binary, files, "LAMEDUCK=2s") }
					s := begin()
					if (s.refused != "") != (a.corefile.Refused != "") {
						t.Fatalf("CoreDNS printed %q, and it is read as refused for %q", s.printed, a.corefile.Refused)
					}
					if s.refused == "" && len(a.corefile.Health) == 1 && a.corefile.Lameduck > 0 {
						s.goesInto(t, a.corefile.Lameduck, begin)
					}
				}
				for _, running := range []string{corefile, a.Patch.Corefile} {
					port := probeOf(t, a)
					if running == "" || running == corefile && port == 0 {
						continue
					}
					s := start(t, binary, map[string]string{"Corefile": running}, "LAMEDUCK=2s")
					if s.refused != "" {
						t.Fatalf("%s: CoreDNS refuses\n%s\n%s", name, running, s.refused)
					}
					if port != 0 && !answers(port, "/ready") {
						t.Errorf("%s: nothing answers /ready on port %d of\n%s", name, port, running)
					}
				}
			}
		})
	}
}

// A drill's own Corefile starts once it has what the drill needs, and has the drill's lameduck.
func TestOwnCorefilesOfDrillsRunInCoreDNS(t *testing.T) {
	binary := realCoreDNS(t)
	for _, own := range []string{
		".:53 {\n    whoami\n}\n",
		".:53 {\n    health {\n        lameduck 20s\n    }\n    ready\n    whoami\n}\n",
		"corp.example:53 {\n    whoami\n}\n.:53 {\n    errors\n    health :8080\n    forward . 10.96.0.53\n}\n",
	} {
		text, err := coredns.Settings{Corefile: own, Lameduck: strict.Duration(2 * time.Second)}.Text("")
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"Corefile": onFreePorts(t, text)}
		begin := func() *started { return start(t, binary, files) }
		s := begin()
		if s.refused != "" {
			t.Fatalf("CoreDNS refuses\n%s\n%s", text, s.refused)
		}
		if read := coredns.Read(coredns.Source{Text: files["Corefile"]}); len(read.Ready) != 1 {
			t.Errorf("ready at %v", read.Ready)
		}
		s.goesInto(t, 2*time.Second, begin)
	}
}

// The snippets in the texts of the rules start, too, and the addition to the Corefile of a platform.
func TestPrintedSnippetsRunInCoreDNS(t *testing.T) {
	binary := realCoreDNS(t)
	snippets := map[string]string{}
	a, err := New(sound(corefileOf(". {\n    whoami\n}\n")))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Findings {
		if _, lines, ok := strings.Cut(f.Fix, ":\n"); ok {
			snippets[f.Rule] = lines
		}
	}
	if snippets["health-plugin"] == "" {
		t.Fatalf("no snippet in %+v", a.Findings)
	}
	page, err := os.ReadFile("../../docs/lameduck.md")
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile("(?s)In the Corefile.*?```\n(.*?)```").FindStringSubmatch(string(page))
	if part == nil {
		t.Fatal("docs/lameduck.md has no part of a Corefile")
	}
	snippets["docs/lameduck.md"] = part[1]
	inPage := sound(corefileOf(". {\n" + part[1] + "\n}\n"))
	probe := regexp.MustCompile("(?m)^readinessProbe: .*$").FindString(string(page))
	if err := yaml.UnmarshalStrict([]byte(probe), inPage.container()); err != nil {
		t.Fatal(err)
	}
	if rules, _ := rulesOf(t, inPage); len(rules) > 0 {
		t.Errorf("docs/lameduck.md breaks %v", rules)
	}
	for name, r := range Rules() {
		for _, m := range regexp.MustCompile("`((?:health|ready)[^`]*)`").FindAllStringSubmatch(r.Fix, -1) {
			snippets[name+" "+m[1]] = m[1]
		}
	}
	for name, snippet := range snippets {
		s := start(t, binary, map[string]string{"Corefile": onFreePorts(t, ". {\n"+snippet+"\nwhoami\n}\n")})
		if s.refused != "" {
			t.Errorf("%s: %s\n%s", name, snippet, s.refused)
		}
	}

	d := sound(corefileOf(". {\n    health {\n        lameduck 1s\n    }\n    ready\n    whoami\n    import custom/*.override\n}\n"), func(d *DNS) {
		d.Platform, d.CorefilePath = AKS, "/etc/coredns/Corefile"
		d.Mounts = []Mount{{Path: "/etc/coredns"}, {Path: "/etc/coredns/custom", ConfigMap: "coredns-custom", Files: map[string]MountedFile{}}}
	})
	if a, err = New(d); err != nil {
		t.Fatal(err)
	}
	var custom struct{ Data map[string]string }
	if err := yaml.Unmarshal([]byte(a.Patch.Custom), &custom); err != nil || len(custom.Data) != 1 {
		t.Fatalf("%q, %v", a.Patch.Custom, err)
	}
	files := map[string]string{"Corefile": onFreePorts(t, d.Corefile)}
	for key, text := range custom.Data {
		files["custom/"+key] = text
	}
	begin := func() *started { return start(t, binary, files) }
	s := begin()
	if s.refused != "" {
		t.Fatal(s.refused)
	}
	s.goesInto(t, 5*time.Second, begin)
}

// CoreDNS knows the directives that are listed, and no plugin without an entry.
func TestDirectivesAreThoseOfCoreDNS(t *testing.T) {
	binary := realCoreDNS(t)
	directives, _ := coredns.Directives("")
	for _, d := range append(slices.Clone(directives), "whoareyou") {
		s := start(t, binary, map[string]string{"Corefile": ". {\n    " + d + " x y z {\n    }\n}\n"})
		if unknown := strings.Contains(s.printed.String(), "Unknown directive"); unknown != (d == "whoareyou") {
			t.Errorf("%s: %s", d, s.printed)
		}
	}
	out, err := exec.Command(binary, "-plugins").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := " " + strings.Join(directives, " ") + " "
	for _, m := range regexp.MustCompile(`(?m)^\s*dns\.(\w+)$`).FindAllStringSubmatch(string(out), -1) {
		if !strings.Contains(known, " "+m[1]+" ") {
			t.Errorf("%s is in CoreDNS, and not in the list", m[1])
		}
	}
}
