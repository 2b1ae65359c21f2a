// Package platforms measures what is lost on each platform, in each way in which a node or a CoreDNS pod ends.
package platforms

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
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
	"github.com/spotdrill/spotdrill/framework/recommend"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/verdict"
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
	missingFlag  = flag.Bool("missing", false, "measure only what the record lacks, or has of an earlier text of preset or scenario")
	settingsFlag = flag.String("settings", "", "measure only with these settings: shipped or proposed")
)

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "platforms")
	names, err := choose(systemFlags.Platform(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if s := *settingsFlag; s != "" && s != string(measured.Shipped) && s != string(measured.Proposed) {
		t.Fatalf("--settings is %q; want %s, %s or nothing for both", s, measured.Shipped, measured.Proposed)
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
		if p.cells, err = cellsOf(name, was); err != nil {
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

// cellsOf are the cells of a platform that are to be measured.
func cellsOf(name string, was measured.Record) (out []cell, err error) {
	p, err := scenarios.PlatformNamed(name)
	if err != nil {
		return nil, err
	}
	for _, settings := range []measured.Settings{measured.Shipped, measured.Proposed} {
		if *settingsFlag != "" && *settingsFlag != string(settings) {
			continue
		}
		for _, way := range measured.Ways() {
			base, err := measured.Base(p, way)
			if err != nil {
				return nil, err
			}
			if last, ok := was.Of(name, way.Name, settings); *missingFlag && ok && last.Digest == base.Digest() {
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
	for n := range measured.Plays {
		name := filepath.Join(p.name, string(c.settings), c.way.Name, fmt.Sprintf("play-%d", n+1))
		entry, err := p.session.Attempts(ctx, name, scenario, p.under)
		if err != nil {
			return err
		}
		play, err := measured.PlayOf(entry.Result)
		if err != nil {
			return fmt.Errorf("play %d cannot be judged: %w", n+1, err)
		}
		GinkgoWriter.Printf("%s %s %s, play %d: %+v\n", p.name, c.way.Name, c.settings, n+1, play)
		plays = append(plays, play)
	}
	was, err := measured.Read(record)
	if err != nil {
		return err
	}
	env := p.session.Report().Environment
	now, err := was.Write(record, measured.Cell{
		Platform: p.name, Way: c.way.Name, Settings: c.settings, Date: time.Now().UTC().Format(time.DateOnly), Digest: c.base.Digest(),
		CoreDNS: settings.String(), Plays: plays,
		On: fmt.Sprintf("Kubernetes %s, CoreDNS %s, kube-proxy %s, kernel %s, %s cores", env["kubernetes"], tag(env["coredns"]), env["kube-proxy"], env["kernel"], env["cores"]),
	})
	if err != nil {
		return err
	}
	return measured.WritePage(page, scenarios.Platforms(), now)
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

// A cell is what the tables and labels name.
func TestEveryPlatformHasEachCell(t *testing.T) {
	for _, name := range scenarios.Platforms() {
		cells, err := cellsOf(name, measured.Record{})
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 * len(measured.Ways()); len(cells) != want {
			t.Errorf("%s has %d cells, want %d", name, len(cells), want)
		}
		for _, c := range cells {
			s, err := measured.Scenario(c.base, c.base.CoreDNS)
			if err != nil {
				t.Errorf("%s, %s: %v", name, c.way.Name, err)
				continue
			}
			if len(s.Checks) != 1 || s.Checks[0].Kind != "losses" || !s.CoreDNS.Equal(c.base.CoreDNS) || len(s.ShutDown()) != len(c.base.ShutDown()) {
				t.Errorf("%s, %s: what is measured is another drill: %s", name, c.way.Name, s.Text)
			}
			if _, err := verdict.Scenarios().Parse(s.Name+".yaml", s.Text); err != nil {
				t.Errorf("%s, %s: %v", name, c.way.Name, err)
			}
		}
	}
}

func TestPlatformsAreChosen(t *testing.T) {
	now := time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC)
	if all, err := choose("", now); err != nil || len(all) != len(scenarios.Platforms()) {
		t.Errorf("got %v, %v", all, err)
	}
	if two, err := choose(tonight, now); err != nil || len(two) != nightly || two[0] == two[1] {
		t.Errorf("got %v, %v", two, err)
	}
	if one, err := choose("kops", now); err != nil || len(one) != 1 {
		t.Errorf("got %v, %v", one, err)
	}
	if _, err := choose("kopps", now); err == nil || !strings.Contains(err.Error(), `did you mean "kops"?`) {
		t.Errorf("got %v", err)
	}
}
