package observe

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/spotdrill/spotdrill/framework/history"
)

// endTimeout is how long a call of spotdrill may take, with the command that it observes.
const endTimeout = 5 * time.Minute

// beginTimeout is how long it may take until a call begins with what it is for.
const beginTimeout = 2 * time.Minute

// call is spotdrill's process, and what it prints on both of its streams.
type call struct {
	*gexec.Session
	output *gbytes.Buffer
}

func (c call) printed() string { return string(c.output.Contents()) }

// start starts spotdrill. A command that it observes has the administrator's kubectl in its PATH.
func (f *foreign) start(args ...string) call {
	GinkgoHelper()
	fmt.Fprintf(GinkgoWriter, "$ spotdrill %s\n", strings.Join(args, " "))
	cmd := exec.Command(f.spotdrill, args...)
	cmd.Env = append(os.Environ(),
		"XDG_STATE_HOME="+filepath.Join(f.folder, "state"),
		"PATH="+filepath.Join(f.folder, "bin")+":"+os.Getenv("PATH"),
		"ENGINE="+f.engine.Name,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION="+region)
	c := call{output: gbytes.NewBuffer()}
	out := io.MultiWriter(c.output, GinkgoWriter)
	var err error
	c.Session, err = gexec.Start(cmd, out, out)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { c.Kill() })
	return c
}

// play starts spotdrill and waits until it has ended.
func (f *foreign) play(ctx SpecContext, args ...string) call {
	GinkgoHelper()
	c := f.start(args...)
	c.end(ctx)
	return c
}

// awaits waits until the process has printed a text; it must not end before.
func (c call) awaits(ctx SpecContext, text string) {
	GinkgoHelper()
	Eventually(ctx, func() (string, error) {
		code, printed := c.ExitCode(), c.printed()
		if code >= 0 && !strings.Contains(printed, text) {
			return printed, StopTrying(fmt.Sprintf("spotdrill ended with code %d before", code))
		}
		return printed, nil
	}).WithTimeout(beginTimeout).WithPolling(time.Second).Should(ContainSubstring(text))
}

// end waits until the process has ended.
func (c call) end(ctx SpecContext) {
	GinkgoHelper()
	Eventually(ctx, c.Session).WithTimeout(endTimeout).Should(gexec.Exit())
}

// observing are the arguments of an observation.
func (f *foreign) observing(args ...string) []string {
	return append([]string{"observe", "--kubeconfig", f.client(), "--context", "theirs", "--image", proberImage, "--out", f.out()}, args...)
}

// drilling are the arguments of a drill.
func (f *foreign) drilling(args ...string) []string {
	return append([]string{"live", "--kubeconfig", f.client(), "--context", "theirs", "--image", proberImage, "--out", f.out()}, args...)
}

// out is the folder of all histories.
func (f *foreign) out() string { return filepath.Join(f.folder, "out") }

// latest is the folder of the newest history.
func (f *foreign) latest() string {
	GinkgoHelper()
	found, err := filepath.Glob(filepath.Join(f.out(), "latest", "*", "attempt-1"))
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(HaveLen(1), "the histories of the newest run")
	return found[0]
}

// recorded are the events of the newest history.
func (f *foreign) recorded() []history.Event {
	GinkgoHelper()
	recorded, err := history.Load(f.latest())
	Expect(err).NotTo(HaveOccurred())
	return recorded.Events
}
