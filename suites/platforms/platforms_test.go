// Package platforms measures what is lost on each platform, in each way in which a node or a CoreDNS pod ends.
package platforms

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/recommend"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/strict"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/scenarios"
	"github.com/spotdrill/spotdrill/suites/flags"
	"github.com/spotdrill/spotdrill/suites/platforms/measured"
)

// What a run reads and writes, relative to the checkout.
const (
	record = "suites/platforms/record.yaml"
	page   = "docs/platforms.md"
)

// tonight is the --platform that picks two presets by the day.
const (
	tonight = "tonight"
	nightly = 2
)

// playTimeout bounds one play, with its attempts.
const playTimeout = session.MaxAttempts * 6 * time.Minute

var (
	drillFlag    = flags.AddDrill()
	systemFlags  = flags.AddSystem()
	outFlag      = flags.AddOut("reports/out/platforms")
	missingFlag  = flag.Bool("missing", false, "measure only what the record lacks, or has of an earlier text of preset or scenario; not with proposed settings where that shows nothing")
	settingsFlag = flag.String("settings", "", "measure only with these settings: shipped or proposed")
	waysFlag     = flag.String("ways", "", "measure only these ways, separated by commas: "+strings.Join(wayNames(), ", "))
)

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "platforms")
	names, err := choose(systemFlags.Platform(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	only, err := part(*settingsFlag, *waysFlag)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	was, err := measured.Read(record)
	if err != nil {
		t.Fatal(err)
	}
	todo := 0
	for _, name := range names {
		p := &platform{root: root, name: name}
		if p.cells, err = cellsOf(name, only, was); err != nil {
			t.Fatal(err)
		}
		if todo += len(p.cells); len(p.cells) > 0 {
			p.specs()
		}
	}
	if todo == 0 {
		fmt.Println("nothing is missing in " + record)
		return
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill platforms")
}

// choose are the presets that --platform names; all without it.
func choose(name string, now time.Time) ([]string, error) {
	switch name {
	case "":
		return scenarios.Platforms(), nil
	case tonight:
		return measured.Tonight(scenarios.Platforms(), now.UTC().YearDay(), nightly), nil
	}
	if _, err := scenarios.PlatformNamed(name); err != nil {
		return nil, fmt.Errorf("--platform: %w; or %s", err, tonight)
	}
	return []string{name}, nil
}

// cell is one to measure.
type cell struct {
	way      measured.Way
	settings measured.Settings
	base     scenarios.Scenario
}

// chosen are the settings and the ways to measure with.
type chosen struct {
	settings []measured.Settings
	ways     []measured.Way
}

func wayNames() (names []string) {
	for _, w := range measured.Ways() {
		names = append(names, w.Name)
	}
	return names
}

// part are the settings and the ways that --settings and --ways name; all without them.
func part(settings, ways string) (chosen, error) {
	only := chosen{[]measured.Settings{measured.Shipped, measured.Proposed}, measured.Ways()}
	if settings != "" {
		one := measured.Settings(settings)
		if !slices.Contains(only.settings, one) {
			return only, fmt.Errorf("--settings is %q%s; or nothing, for both", settings, strict.Among(settings, history.Words(only.settings)))
		}
		only.settings = []measured.Settings{one}
	}
	if ways == "" {
		return only, nil
	}
	only.ways = nil
	for name := range strings.SplitSeq(ways, ",") {
		i := slices.Index(wayNames(), name)
		if i < 0 {
			return only, fmt.Errorf("--ways has %q%s; or nothing, for all", name, strict.Among(name, wayNames()))
		}
		only.ways = append(only.ways, measured.Ways()[i])
	}
	return only, nil
}

// cellsOf are the cells of a platform that are to be measured.
func cellsOf(name string, only chosen, was measured.Record) (out []cell, err error) {
	p, err := scenarios.PlatformNamed(name)
	if err != nil {
		return nil, err
	}
	for _, settings := range only.settings {
		for _, way := range only.ways {
			base, err := measured.Base(p, way)
			if err != nil {
				return nil, err
			}
			if *missingFlag && was.Settled(p, way, settings, base) {
				continue
			}
			out = append(out, cell{way, settings, base})
		}
	}
	return out, nil
}

// platform is one run on a preset.
type platform struct {
	root, name string
	cells      []cell
	session    *session.Session
	under      handler.Description
	proposal   *coredns.Settings // what recommend proposes; nil until it is known
}

func (p *platform) specs() {
	Describe(p.name, Ordered, ContinueOnFailure, Label("platform:"+p.name), func() {
		BeforeAll(func(ctx SpecContext) {
			var err error
			p.under, err = handler.Load("builtin")
			Expect(err).NotTo(HaveOccurred())
			p.session, err = systemFlags.SessionOn(p.name, p.root, session.Options{Handler: p.under, Set: scenarios.Full, Out: *outFlag})
			Expect(err).NotTo(HaveOccurred())
			Expect(p.session.SetUp(ctx)).To(Succeed())
			Expect(p.session.NoSystem()).To(BeEmpty(), "set-up")
		}, NodeTimeout(session.SetUpTimeout))
		AfterAll(func(ctx SpecContext) {
			if p.session != nil {
				Expect(p.session.Restore(ctx)).To(Succeed())
			}
		}, NodeTimeout(session.FinishTimeout))
		for _, c := range p.cells {
			It(fmt.Sprintf("%s, settings as %s", c.way.Name, c.settings), Label("way:"+c.way.Name, "settings:"+string(c.settings)), func(ctx SpecContext) {
				Expect(p.measure(ctx, c)).To(Succeed())
			}, NodeTimeout(measured.Plays*playTimeout))
		}
	})
}

// measure plays a cell and writes it to the record and the page. A play that cannot be judged leaves the cell as it was.
func (p *platform) measure(ctx context.Context, c cell) error {
	settings := c.base.CoreDNS
	if c.settings == measured.Proposed {
		var err error
		if settings, err = p.proposed(ctx, settings); err != nil {
			return err
		}
	}
	scenario, err := measured.Scenario(c.base, settings)
	if err != nil {
		return err
	}
	var plays []measured.Play
	unjudged := 0
	for n := range measured.Plays {
		name := filepath.Join(p.name, string(c.settings), c.way.Name, fmt.Sprintf("play-%d", n+1))
		play, attempts, err := p.play(ctx, name, scenario)
		if err != nil {
			return fmt.Errorf("play %d: %w", n+1, err)
		}
		GinkgoWriter.Printf("%s %s %s, play %d: %+v\n", p.name, c.way.Name, c.settings, n+1, play)
		plays, unjudged = append(plays, play), unjudged+attempts-1
	}
	was, err := measured.Read(record)
	if err != nil {
		return err
	}
	env := p.session.Report().Environment
	now, err := was.Write(record, measured.Cell{
		Platform: p.name, Way: c.way.Name, Settings: c.settings, Date: time.Now().UTC().Format(time.DateOnly), Digest: c.base.Digest(),
		CoreDNS: settings.String(), Plays: plays, Unjudged: unjudged,
		On: fmt.Sprintf("Kubernetes %s, CoreDNS %s, kube-proxy %s, kernel %s, %s cores", env["kubernetes"], tag(env["coredns"]), env["kube-proxy"], env["kernel"], env["cores"]),
	})
	if err != nil {
		return err
	}
	return measured.WritePage(page, scenarios.Platforms(), now)
}

// play plays a scenario until it can be judged. If it cannot be, the play has what it can have lost at most, or the error is why
// not even that is known.
func (p *platform) play(ctx context.Context, name string, scenario scenarios.Scenario) (play measured.Play, attempts int, err error) {
	entry, err := p.session.Attempts(ctx, name, scenario, p.under)
	if err != nil {
		return play, entry.Attempts, err
	}
	play, err = measured.PlayOf(entry.Result)
	if play.AtMost {
		err = nil
	}
	return play, entry.Attempts, wrap.Errorf(err, "cannot be judged after %d attempts", entry.Attempts)
}

// tag is that of an image.
func tag(image string) string { return image[strings.LastIndexByte(image, ':')+1:] }

// proposed are the settings with what spotdrill recommend proposes for a CoreDNS that runs with them.
func (p *platform) proposed(ctx context.Context, settings coredns.Settings) (coredns.Settings, error) {
	if p.proposal == nil {
		found, err := p.recommended(ctx, settings)
		if err != nil {
			return settings, fmt.Errorf("find out what spotdrill recommend proposes: %w", err)
		}
		p.proposal = &found
	}
	// What depends on the way stays. No number of pods is proposed for a DaemonSet.
	settings.Lameduck, settings.GracePeriod, settings.Replicas = p.proposal.Lameduck, p.proposal.GracePeriod, max(settings.Replicas, p.proposal.Replicas)
	settings.Readiness.Period, settings.Readiness.FailureThreshold = p.proposal.Readiness.Period, p.proposal.Readiness.FailureThreshold
	settings.Unsafe = settings.GracePeriod <= settings.PreStop+settings.Lameduck
	return settings, nil
}

// recommended is the proposal for the cluster when its CoreDNS runs with the settings.
func (p *platform) recommended(ctx context.Context, settings coredns.Settings) (coredns.Settings, error) {
	sys := p.session.Running()
	if err := sys.SetDNS(ctx, settings); err != nil {
		return settings, err
	}
	kubeconfig, err := system.Kubeconfig(p.session.System.Cluster)
	if err != nil {
		return settings, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return settings, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return settings, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return settings, err
	}
	found, err := recommend.Read(ctx, client, objects, "kube-system", "coredns")
	if err != nil {
		return settings, err
	}
	advice, err := recommend.New(found)
	return advice.Proposed, err
}
